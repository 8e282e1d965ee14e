//! The folder of kept tables: its files are complete or absent, and their size is limited.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::{Kept, Key, Reader, Writer};

/// How the names of files end.
const ENDING: &str = ".tables";
/// How their names begin while they are written.
const UNFINISHED: &str = ".tmp-";
/// The limit in bytes: some forty vocabularies of 200,000 tokens.
const MOST: u64 = 1 << 30;
/// A file is marked as used once a day: often enough to know which ones are not.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where tables are kept; it need not exist.
pub struct Folder {
    path: PathBuf,
    /// Bytes that all files together may have.
    pub(super) most: u64,
}

impl Folder {
    /// The folder at a path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            most: MOST,
        }
    }

    /// What is kept for a key, if it is there, intact, and of this build.
    pub fn get<T: Kept>(&self, key: &Key) -> Option<T> {
        let path = self.path_of(key);
        let file = File::open(&path).ok()?;
        mark_used(&file);
        let mut reader = Reader::new(file, key)?;
        let found = T::read(&mut reader)?;
        reader.verify_checksum().then_some(found)
    }

    /// Keeps something; if that fails, it is made again next time.
    pub fn put(&self, key: &Key, kept: &impl Kept) {
        let mut writer = Writer::new(key);
        kept.write(&mut writer);
        if self.publish(&self.path_of(key), &writer.finish()).is_ok() {
            self.make_room();
        }
    }

    /// No sync: the checksum detects a file that a power cut has left incomplete.
    fn publish(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(&self.path)?;
        let (process, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // Two machines may share a folder and a process id, so the clock is in the name as well.
        let clock = clock.map_or(0, |since| since.as_nanos());
        let temporary = self
            .path
            .join(format!("{UNFINISHED}{process}-{next}-{clock:x}"));
        let done = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if done.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        done
    }

    /// Removes the least recently used files until the rest fits, and what dead processes have left.
    fn make_room(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(status) = entry.metadata() else {
                continue;
            };
            let used = status.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.starts_with(UNFINISHED) && used.elapsed().is_ok_and(|age| age > DAY) {
                let _ = fs::remove_file(entry.path());
            } else if name.ends_with(ENDING) {
                files.push((used, status.len(), entry.path()));
            }
        }
        files.sort();
        let mut held: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if held <= self.most {
                return;
            }
            if fs::remove_file(path).is_ok() {
                held -= bytes;
            }
        }
    }

    pub(super) fn path_of(&self, key: &Key) -> PathBuf {
        self.path.join(key.name() + ENDING)
    }
}

fn mark_used(file: &File) {
    let modified = file.metadata().and_then(|status| status.modified());
    if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > DAY)) {
        // Somebody else's file stays as it is.
        let _ = file.set_modified(SystemTime::now());
    }
}
