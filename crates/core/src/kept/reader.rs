//! A file's bytes back into flat arrays, hashed as they pass.
//!
//! Through a small buffer that stays in the cache, not through a memory map: the arrays end up in memory of their own,
//! for which the kernel grants huge pages, and a file that somebody truncates is an end of file and not a signal.

use std::fs::File;
use std::io::Read;

use xxhash_rust::xxh3::Xxh3;

use super::{Key, CHECKSUM, MAGIC, SOURCES};

/// Divisible by the width of every element.
const BUFFER: usize = 256 << 10;

/// What is left of a file.
pub struct Reader {
    file: File,
    /// Bytes before the checksum that were not read yet.
    left: u64,
    hasher: Xxh3,
    buffer: Vec<u8>,
}

impl Reader {
    /// A file that begins as one with this key does.
    pub(super) fn new(file: File, key: &Key) -> Option<Self> {
        let size = file.metadata().ok()?.len();
        let mut reader = Self {
            file,
            left: size.checked_sub(CHECKSUM as u64)?,
            hasher: Xxh3::new(),
            buffer: vec![0; BUFFER],
        };
        let head = [&MAGIC[..], SOURCES, &key.0].concat();
        let found = reader.take(head.len())?;
        (found == head).then_some(reader)
    }

    /// The next bytes, at most a buffer full.
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        self.left = self.left.checked_sub(count as u64)?;
        let bytes = self.buffer.get_mut(..count)?;
        self.file.read_exact(bytes).ok()?;
        self.hasher.update(bytes);
        Some(bytes)
    }

    /// One number.
    pub fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// One number that counts something.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    /// The length of an array, which the rest of the file can hold.
    fn length(&mut self, width: usize) -> Option<usize> {
        let length = self.number()?;
        let bytes = length.checked_mul(width as u64)?;
        (bytes <= self.left)
            .then(|| usize::try_from(length).ok())
            .flatten()
    }

    /// Passes an array of `bytes` bytes to `use_it` in parts of whole elements.
    fn each(&mut self, mut bytes: usize, mut use_it: impl FnMut(&[u8])) -> Option<()> {
        while bytes > 0 {
            let now = bytes.min(BUFFER);
            use_it(self.take(now)?);
            bytes -= now;
        }
        Some(())
    }

    /// An array of bytes.
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.length(1)?;
        let mut bytes = Vec::with_capacity(length);
        self.each(length, |part| bytes.extend_from_slice(part))?;
        Some(bytes)
    }

    /// An array of words.
    pub fn words(&mut self) -> Option<Vec<u32>> {
        let length = self.length(4)?;
        let mut words = Vec::with_capacity(length);
        self.each(4 * length, |part| words.extend(words_of(part)))?;
        Some(words)
    }

    /// An array of so many words.
    pub fn words_of_len<const LEN: usize>(&mut self) -> Option<Box<[u32; LEN]>> {
        self.words()?.into_boxed_slice().try_into().ok()
    }

    /// An array of pairs of words.
    pub fn pairs(&mut self) -> Option<Vec<(u32, u32)>> {
        let length = self.length(8)?;
        let mut pairs = Vec::with_capacity(length);
        self.each(8 * length, |part| {
            let halves = longs_of(part).map(|pair| (pair as u32, (pair >> 32) as u32));
            pairs.extend(halves);
        })?;
        Some(pairs)
    }

    /// An array of double words.
    pub fn longs(&mut self) -> Option<Vec<u64>> {
        let length = self.length(8)?;
        let mut longs = Vec::with_capacity(length);
        self.each(8 * length, |part| longs.extend(longs_of(part)))?;
        Some(longs)
    }

    /// An array of double words, read into memory that `room` allocates for so many of them.
    pub(crate) fn longs_into<M: std::ops::DerefMut<Target = [u64]>>(
        &mut self,
        room: impl FnOnce(usize) -> M,
    ) -> Option<M> {
        let length = self.length(8)?;
        let mut memory = room(length);
        let mut rest = memory.get_mut(..length)?;
        self.each(8 * length, |part| {
            let (now, after) = std::mem::take(&mut rest).split_at_mut(part.len() / 8);
            for (long, found) in now.iter_mut().zip(longs_of(part)) {
                *long = found;
            }
            rest = after;
        })?;
        Some(memory)
    }

    /// Whether the file ends here, with the right checksum.
    pub(super) fn verify_checksum(mut self) -> bool {
        let mut checksum = [0; CHECKSUM];
        self.left == 0
            && self.file.read_exact(&mut checksum).is_ok()
            && checksum == self.hasher.digest128().to_le_bytes()
    }
}

fn words_of(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u32::from_le_bytes(*word))
}

fn longs_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (longs, _) = bytes.as_chunks();
    longs.iter().map(|long| u64::from_le_bytes(*long))
}
