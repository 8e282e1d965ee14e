//! A bounded cache of the ids of pieces: vocabulary and cache in one structure.
//!
//! Three tiers by length. Pieces of up to 15 bytes, which nearly all are, go in the lines. Pieces of up to 31 bytes
//! take a cache line each, with eight ids. Longer pieces, and lists of ids that do not fit in their place, go in a
//! ring. New entries evict old ones, so memory never grows; as a value is a function of its key, eviction changes no
//! result.

use super::keys::{hash_long, long_key, Key, ShortKey, LONG, SHORT};
use super::lines::Lines;
use super::packed::Packed;
use super::spill::{Chunk, IdSpan, Ring, CHUNK};
use crate::pages::{prefetch, Pages, Plain};

const COUNT_SHIFT: u32 = 24;
const ID_MASK: u32 = (1 << COUNT_SHIFT) - 1;
/// Set in the length byte of a long key whose ids are in the spill.
const SPILLED: u64 = 0x80 << 56;

/// Key and ids of a piece of 16 to 31 bytes; the count is in the high byte of the first id.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct LongSlot {
    key: [u64; 4],
    ids: Chunk,
}

// SAFETY: integers only.
unsafe impl Plain for LongSlot {}

/// The cache of one thread.
pub(crate) struct Cache {
    pub(crate) lines: Lines,
    long: Pages<LongSlot>,
    spill: Ring,
}

impl Cache {
    /// Creates a cache of at most `bytes`, but never less than a few kilobytes, with room for `first` pieces from the start
    /// and for more as they come.
    pub(crate) fn new(bytes: usize, first: usize) -> Self {
        Self {
            lines: Lines::new(bytes / 3 * 2, first),
            long: Pages::zeroed(1 << (bytes / 4 / size_of::<LongSlot>()).max(16).ilog2()),
            spill: Ring::new(bytes / 6),
        }
    }

    /// Prefetches the slot of a longer piece, if it has one.
    #[cold]
    pub(crate) fn prefetch_long(&self, text: &[u8], start: usize, len: usize, tag: u8) {
        if len <= LONG {
            let key = long_key(text, start, len, tag);
            prefetch(&raw const self.long[self.slot_of(key)]);
        }
    }

    /// Prefetches the line or slot of a key.
    pub(crate) fn prefetch(&self, key: Key) {
        match key.by_length() {
            Ok(key) => {
                let lines = self.lines.view();
                lines.prefetch(lines.line_of(key));
            }
            Err(key) => prefetch(&raw const self.long[self.slot_of(key)]),
        }
    }

    #[inline(always)]
    fn slot_of(&self, key: [u64; 4]) -> usize {
        hash_long(key) as usize & (self.long.len() - 1)
    }

    /// Returns the spilled ids of an entry that a probe of the lines found, in chunks, and how many of them are valid; `None`
    /// if they are gone.
    #[inline(always)]
    pub(crate) fn spilled(&self, found: Packed) -> Option<(&[Chunk], usize)> {
        let place = found.place()?;
        Some((self.spill.chunks(place)?, place.count))
    }

    /// Appends the ids of a piece; `false` if they are not known.
    pub(crate) fn find(
        &mut self,
        text: &[u8],
        start: usize,
        len: usize,
        tag: u8,
        out: &mut Vec<u32>,
    ) -> bool {
        if len <= SHORT {
            let key = ShortKey::new(text, start, len, tag);
            let Some(found) = self.lines.find(key) else {
                return false;
            };
            if let Some(ids) = found.lanes().get(..found.count()) {
                out.extend_from_slice(ids);
                return true;
            }
            return self.spilled(found).is_some_and(|(chunks, count)| {
                out.extend_from_slice(&chunks.as_flattened()[..count]);
                true
            });
        }
        let found = if len <= LONG {
            self.find_long(long_key(text, start, len, tag))
        } else {
            self.spill.find(&text[start..start + len], tag)
        };
        let first = out.len();
        found.is_some_and(|ids| {
            out.extend_from_slice(ids);
            if len <= LONG {
                out[first] &= ID_MASK;
            }
            true
        })
    }

    /// Returns the ids in a long slot, the first still carrying the count, or the ids that the slot points to in the spill.
    fn find_long(&self, mut key: [u64; 4]) -> Option<&[u32]> {
        let at = self.slot_of(key);
        if let Some(ids) = self.ids_at(at, key) {
            return Some(&ids[..(ids[0] >> COUNT_SHIFT) as usize]);
        }
        key[3] |= SPILLED;
        let [low, high, count, ..] = *self.ids_at(at, key)?;
        self.spill
            .get(IdSpan { start: u64::from(high) << 32 | u64::from(low), count: count as usize })
    }

    /// Returns what a slot or its neighbour holds for a key.
    #[inline(always)]
    fn ids_at(&self, at: usize, key: [u64; 4]) -> Option<&Chunk> {
        let slots = [&self.long[at], &self.long[at ^ 1]];
        let found = slots.into_iter().find(|slot| slot.key == key)?;
        Some(&found.ids)
    }

    /// Returns the ids of a piece of 16 to 31 bytes in one chunk, and how many of them are valid; `None` if it has another
    /// length, or if they are not known or do not fit.
    #[inline(always)]
    pub(crate) fn probe_long(
        &self,
        text: &[u8],
        start: usize,
        len: usize,
        tag: u8,
    ) -> Option<(Chunk, usize)> {
        if !(SHORT + 1..=LONG).contains(&len) {
            return None;
        }
        let key = long_key(text, start, len, tag);
        let mut ids = *self.ids_at(self.slot_of(key), key)?;
        let count = (ids[0] >> COUNT_SHIFT) as usize;
        ids[0] &= ID_MASK;
        Some((ids, count))
    }

    /// Remembers the ids of a piece of up to [`LONG`] bytes.
    pub(crate) fn insert(&mut self, key: Key, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        match key.by_length() {
            Ok(key) => {
                let spill = || self.spill.put(ids).and_then(Packed::spilled);
                if let Some(packed) = Packed::new(ids).or_else(spill) {
                    self.lines.insert(key, packed);
                }
            }
            Err(key) => self.insert_long(key, ids),
        }
    }

    /// Remembers a token, whose bytes encode to its own id, unless that would evict a better one.
    pub(crate) fn seed(&mut self, key: Key, id: u32) {
        match key.by_length() {
            Ok(key) => {
                if let Some(packed) = Packed::new(&[id]) {
                    self.lines.offer(key, packed);
                }
            }
            Err(key) if self.long[self.slot_of(key) ^ 1].key == [0; 4] => {
                self.insert_long(key, &[id]);
            }
            Err(_) => {}
        }
    }

    /// Remembers the ids of a longer piece.
    pub(crate) fn insert_longer(&mut self, piece: &[u8], tag: u8, ids: &[u32]) {
        self.spill.insert(piece, tag, ids);
    }

    fn insert_long(&mut self, mut key: [u64; 4], ids: &[u32]) {
        let at = self.slot_of(key);
        let mut lanes = [0; CHUNK];
        if ids.len() <= CHUNK {
            lanes[..ids.len()].copy_from_slice(ids);
            lanes[0] |= (ids.len() as u32) << COUNT_SHIFT;
        } else if let Some(place) = self.spill.put(ids) {
            key[3] |= SPILLED;
            lanes[..3].copy_from_slice(&[
                place.start as u32,
                (place.start >> 32) as u32,
                place.count as u32,
            ]);
        } else {
            return;
        }
        // The entry that it evicts moves to the neighbouring slot.
        if self.long[at].key != key {
            self.long[at ^ 1] = self.long[at];
        }
        self.long[at] = LongSlot { key, ids: lanes };
    }
}
