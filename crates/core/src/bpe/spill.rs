//! A ring of fixed size for long keys and long lists of ids: the oldest are overwritten.
//!
//! Positions are counted from the first word ever written, so one comparison tells whether one was overwritten.

use crate::hash::hash_bytes;

/// Pieces longer than this are not remembered: they hardly ever repeat.
const KEY_LIMIT: usize = 1024;

/// Ids that are copied at once.
pub(crate) const CHUNK: usize = 8;
pub(crate) type Chunk = [u32; CHUNK];

/// Where a list of ids lies.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct IdSpan {
    pub(crate) start: u64,
    pub(crate) count: usize,
}

/// A long piece: its bytes lie in the ring right before its ids.
#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    key_len: u32,
    key_start: u64,
    ids: IdSpan,
}

pub(crate) struct Ring {
    /// `size` words, and a few more so that whatever is stored last can be read in whole chunks.
    words: Vec<u32>,
    size: usize,
    /// Words written since the beginning.
    head: u64,
    entries: Vec<Entry>,
}

impl Ring {
    /// Creates a ring and an index of about `bytes` together.
    pub(crate) fn new(bytes: usize) -> Self {
        let power = |part: usize| 1usize << part.max(64).ilog2();
        let size = power(bytes / 2 / size_of::<u32>());
        Self {
            words: vec![0; size + CHUNK],
            size,
            head: 0,
            entries: vec![Entry::default(); power(bytes / 2 / size_of::<Entry>())],
        }
    }

    /// Room for `count` consecutive words; `None` if that is too many.
    fn room(&mut self, count: usize) -> Option<u64> {
        let size = self.size;
        if count > size / 4 {
            return None;
        }
        let at = self.index(self.head);
        if at + count > size {
            self.head += (size - at) as u64;
        }
        let start = self.head;
        self.head += count as u64;
        Some(start)
    }

    fn index(&self, start: u64) -> usize {
        start as usize & (self.size - 1)
    }

    /// Returns whether the words that start there have not been overwritten.
    fn is_kept(&self, start: u64) -> bool {
        start + self.size as u64 >= self.head
    }

    /// Stores ids; `None` if there are too many.
    pub(crate) fn put(&mut self, ids: &[u32]) -> Option<IdSpan> {
        let start = self.room(ids.len())?;
        let at = self.index(start);
        self.words[at..at + ids.len()].copy_from_slice(ids);
        Some(IdSpan { start, count: ids.len() })
    }

    /// Stored ids, unless they were overwritten.
    #[inline(always)]
    pub(crate) fn get(&self, place: IdSpan) -> Option<&[u32]> {
        let at = self.index(place.start);
        if self.is_kept(place.start) {
            self.words.get(at..at + place.count)
        } else {
            None
        }
    }

    /// Stored ids in whole chunks, unless they were overwritten; the last chunk ends with something else.
    #[inline(always)]
    pub(crate) fn chunks(&self, place: IdSpan) -> Option<&[Chunk]> {
        let at = self.index(place.start);
        let words = self.words.get(at..at + place.count.next_multiple_of(CHUNK))?;
        self.is_kept(place.start).then_some(words.as_chunks().0)
    }

    /// Returns the ids of a long piece, if they are known.
    pub(crate) fn find(&self, piece: &[u8], tag: u8) -> Option<&[u32]> {
        let hash = hash_bytes(piece) ^ u64::from(tag);
        let entry = &self.entries[hash as usize & (self.entries.len() - 1)];
        let is_it = entry.hash == hash
            && entry.key_len as usize == piece.len()
            && self.is_kept(entry.key_start)
            && self.holds(entry.key_start, piece);
        if is_it {
            self.get(entry.ids)
        } else {
            None
        }
    }

    fn holds(&self, start: u64, piece: &[u8]) -> bool {
        let at = self.index(start);
        let words = &self.words[at..at + piece.len().div_ceil(4)];
        words.iter().zip(piece.chunks(4)).all(|(word, bytes)| *word == word_of(bytes))
    }

    /// Remembers a long piece.
    pub(crate) fn insert(&mut self, piece: &[u8], tag: u8, ids: &[u32]) {
        if piece.len() > KEY_LIMIT {
            return;
        }
        let key_words = piece.len().div_ceil(4);
        let Some(key_start) = self.room(key_words + ids.len()) else {
            return;
        };
        let at = self.index(key_start);
        for (word, bytes) in self.words[at..].iter_mut().zip(piece.chunks(4)) {
            *word = word_of(bytes);
        }
        self.words[at + key_words..][..ids.len()].copy_from_slice(ids);
        let hash = hash_bytes(piece) ^ u64::from(tag);
        let slot = hash as usize & (self.entries.len() - 1);
        self.entries[slot] = Entry {
            hash,
            key_len: piece.len() as u32,
            key_start,
            ids: IdSpan { start: key_start + key_words as u64, count: ids.len() },
        };
    }
}

fn word_of(bytes: &[u8]) -> u32 {
    let mut buffer = [0; 4];
    buffer[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(buffer)
}

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn what_is_found_is_what_was_put() {
        let mut spill = Ring::new(4 << 10);
        let mut places = Vec::new();
        for turn in 0..500u32 {
            let ids: Vec<u32> = (0..=turn % 50).map(|id| id + turn).collect();
            let piece: Vec<u8> = (0..turn % 90 + 32).map(|byte| (byte + turn) as u8).collect();
            places.push((spill.put(&ids).expect("fits"), ids.clone()));
            spill.insert(&piece, 0, &ids);
            assert_eq!(spill.find(&piece, 0), Some(&ids[..]));
            assert_eq!(spill.find(&piece, 0x40), None);
            let kept = places.iter().filter(|(place, _)| spill.get(*place).is_some()).count();
            assert!(kept > 0 && kept <= turn as usize + 1);
            for (place, ids) in &places {
                assert!(spill.get(*place).is_none_or(|found| found == ids));
            }
        }
        assert_eq!(spill.get(places[0].0), None, "the oldest are gone");
    }
}
