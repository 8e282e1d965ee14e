//! Counts on disk, partitioned by hash: when the tables exceed their budget, everything in them is appended to
//! one of [`PARTITIONS`] files; at the end each partition is summed by itself. Exact, whatever was
//! spilled when: all counts of one piece are in one partition.
//!
//! On Unix a file is unlinked as soon as it is open, so that not even a kill leaves anything behind.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::table::{CountedPiece, PieceKey, PieceTable};
use crate::{Error, Result, Stop};

/// How many files; each must fit in memory by itself.
pub const PARTITIONS: usize = 128;
const BUFFER: usize = 32 << 10;

/// Returns the partition of a piece, by the top bits of its hash.
#[inline]
pub fn partition_of(hash: u64) -> usize {
    (hash >> 57) as usize
}

/// Partition files that are being written.
pub struct Spill {
    parts: Vec<BufWriter<File>>,
    folder: PathBuf,
    bytes: u64,
    in_order: bool,
}

impl Spill {
    /// Opens the files in a new folder under `parent`; with `in_order`, where each piece first occurs is kept.
    pub fn new(parent: &Path, in_order: bool) -> Result<Self> {
        let folder = new_folder(parent)?;
        let parts = (0..PARTITIONS)
            .map(|part| open_unnamed(&folder, &format!("{part}.counts")))
            .collect::<Result<Vec<_>>>();
        let parts = parts.inspect_err(|_| drop(fs::remove_dir_all(&folder)))?;
        let parts = parts.into_iter();
        Ok(Self {
            parts: parts.map(|file| BufWriter::with_capacity(BUFFER, file)).collect(),
            folder,
            bytes: 0,
            in_order,
        })
    }

    /// Appends everything in `table`.
    pub fn append(&mut self, table: &PieceTable) -> Result<()> {
        let mut outcome = Ok(());
        table.for_each_entry(|entry| {
            if outcome.is_ok() {
                let hash = PieceKey::of(entry.piece, 0, entry.piece.len()).hash;
                let part = &mut self.parts[partition_of(hash)];
                outcome = write_record(part, entry, self.in_order);
                self.bytes += (header_len(self.in_order) + entry.piece.len()) as u64;
            }
        });
        outcome.map_err(|error| disk_error(&self.folder, &error))
    }

    /// Sums every partition; the result has each piece once, in ascending order within its partition.
    pub fn finish(mut self, stop: &Stop) -> Result<Spilled> {
        let mut parts = Vec::with_capacity(PARTITIONS);
        let mut unique = 0;
        let bytes = self.bytes;
        for writer in std::mem::take(&mut self.parts) {
            stop.check()?;
            let name = format!("{}.sums", parts.len());
            let (file, pieces) =
                self.sum(writer, &name).map_err(|error| disk_error(&self.folder, &error))?;
            unique += pieces;
            parts.push(file);
        }
        Ok(Spilled {
            parts,
            unique,
            bytes,
            in_order: self.in_order,
            folder: std::mem::take(&mut self.folder),
        })
    }

    fn sum(&self, writer: BufWriter<File>, name: &str) -> std::io::Result<(File, u64)> {
        let file = writer.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let mut table = PieceTable::new(self.in_order);
        for_each_record(&file, self.in_order, &mut |entry| {
            let key = PieceKey::of(entry.piece, 0, entry.piece.len());
            table.add_seen(entry.piece, key, entry.count, entry.first);
        })?;
        drop(file);
        let sums = open_unnamed(&self.folder, name).map_err(std::io::Error::other)?;
        let mut out = BufWriter::with_capacity(BUFFER, &sums);
        let mut outcome = Ok(());
        table.for_each_of(&table.order(), |entry| {
            if outcome.is_ok() {
                outcome = write_record(&mut out, entry, self.in_order);
            }
        });
        outcome?;
        out.flush()?;
        drop(out);
        Ok((sums, table.len() as u64))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if !self.folder.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Summed partitions.
pub struct Spilled {
    parts: Vec<File>,
    /// How many distinct pieces there are.
    pub unique: u64,
    /// Bytes that went to disk before they were summed.
    pub bytes: u64,
    /// Whether it keeps where each piece first occurs.
    pub in_order: bool,
    folder: PathBuf,
}

impl Spilled {
    /// Returns every piece of one partition, in ascending order of its bytes.
    pub fn for_each_in(&self, part: usize, each: &mut dyn FnMut(CountedPiece<'_>)) -> Result<()> {
        for_each_record(&self.parts[part], self.in_order, each)
            .map_err(|error| disk_error(&self.folder, &error))
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A record is the length of the piece, its count, where it first occurs if that is kept, and its bytes.
fn header_len(in_order: bool) -> usize {
    if in_order {
        20
    } else {
        12
    }
}

fn write_record(
    out: &mut impl Write,
    entry: CountedPiece<'_>,
    in_order: bool,
) -> std::io::Result<()> {
    let mut header = [0u8; 20];
    header[..4].copy_from_slice(&(entry.piece.len() as u32).to_le_bytes());
    header[4..12].copy_from_slice(&entry.count.to_le_bytes());
    header[12..].copy_from_slice(&entry.first.to_le_bytes());
    out.write_all(&header[..header_len(in_order)])?;
    out.write_all(entry.piece)
}

fn for_each_record(
    file: &File,
    in_order: bool,
    each: &mut dyn FnMut(CountedPiece<'_>),
) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    reader.seek(SeekFrom::Start(0))?;
    let mut header = [0u8; 20];
    let mut piece = Vec::new();
    loop {
        if reader.read(&mut header[..1])? == 0 {
            return Ok(());
        }
        reader.read_exact(&mut header[1..header_len(in_order)])?;
        let (mut len, mut count, mut first) = ([0u8; 4], [0u8; 8], [0u8; 8]);
        len.copy_from_slice(&header[..4]);
        count.copy_from_slice(&header[4..12]);
        first.copy_from_slice(&header[12..]);
        piece.resize(u32::from_le_bytes(len) as usize, 0);
        reader.read_exact(&mut piece)?;
        each(CountedPiece {
            piece: &piece,
            count: u64::from_le_bytes(count),
            first: u64::from_le_bytes(first),
        });
    }
}

fn new_folder(parent: &Path) -> Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = parent.join(format!(".tokenmill-spill-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| disk_error(&folder, &error))?;
    Ok(folder)
}

fn open_unnamed(folder: &Path, name: &str) -> Result<File> {
    let path = folder.join(name);
    let opened = File::options().read(true).write(true).create_new(true).open(&path);
    let file = opened.map_err(|error| disk_error(&path, &error))?;
    if cfg!(unix) {
        fs::remove_file(&path).map_err(|error| disk_error(&path, &error))?;
    }
    Ok(file)
}

fn disk_error(path: &Path, error: &std::io::Error) -> Error {
    Error::Disk(format!(
        "cannot keep piece counts on disk under {}: {error}; free space there, choose another folder \
         with spill_dir, or raise memory_budget",
        path.display()
    ))
}
