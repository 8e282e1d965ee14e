//! Flat arrays into a file's bytes.

use xxhash_rust::xxh3::xxh3_128;

use super::{Key, MAGIC, SOURCES};

/// The bytes of a file in the making.
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn new(key: &Key) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(SOURCES);
        bytes.extend_from_slice(&key.0);
        Self { bytes }
    }

    /// One number.
    pub fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// An array of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// An array of words.
    pub fn words(&mut self, words: &[u32]) {
        self.number(words.len() as u64);
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        self.bytes.extend(words);
    }

    /// An array of double words.
    pub fn longs(&mut self, longs: &[u64]) {
        self.number(longs.len() as u64);
        let longs = longs.iter().flat_map(|long| long.to_le_bytes());
        self.bytes.extend(longs);
    }

    /// An array of pairs of words.
    pub fn pairs(&mut self, pairs: &[(u32, u32)]) {
        self.number(pairs.len() as u64);
        let words = pairs.iter().flat_map(|(left, right)| [*left, *right]);
        self.bytes.extend(words.flat_map(u32::to_le_bytes));
    }

    /// The whole file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let checksum = xxh3_128(&self.bytes);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}
