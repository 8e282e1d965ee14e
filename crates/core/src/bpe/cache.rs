//! Bounded memory of what pieces became: vocabulary and cache in one structure.
//!
//! Three tiers by length. Up to 15 bytes, where nearly all pieces of English and code are: buckets of one
//! cache line with two slots of key and four ids. Up to 31 bytes: a cache line each, eight ids. Longer ones,
//! and lists of ids that do not fit their slot: an arena that starts anew when it is full. New entries push
//! out old ones, so memory never grows; as a value is a function of its key, forgetting changes no result.

use super::keys::{hash_long, hash_short, long_key, short_key, LONG, SHORT};
use super::pages::{prefetch, Pages, Plain};
use super::spill::{Spill, SpillPlace};

const COUNT_SHIFT: u32 = 24;
const ID_MASK: u32 = (1 << COUNT_SHIFT) - 1;
/// Set in the length byte of a key whose ids are in the spill: the fast probe never matches it.
const SPILLED: u128 = 0x80 << 120;
/// Ids in a short slot.
pub(crate) const LANES: usize = 4;
const LONG_LANES: usize = 8;

/// Key and ids of a short piece; the count is in the high byte of the first id.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Slot {
    key: u128,
    ids: [u32; LANES],
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Bucket([Slot; 2]);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct LongSlot {
    key: [u128; 2],
    ids: [u32; LONG_LANES],
}

// SAFETY: integers only.
unsafe impl Plain for Bucket {}
// SAFETY: integers only.
unsafe impl Plain for LongSlot {}

/// The cache of one thread.
pub(crate) struct Cache {
    short: Pages<Bucket>,
    long: Pages<LongSlot>,
    spill: Spill,
}

impl Cache {
    /// A cache of at most `bytes`, but never less than a few kilobytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let share = |part: usize, size: usize| 1usize << (bytes / part / size).max(16).ilog2();
        Self {
            short: Pages::zeroed(share(3, size_of::<Bucket>()) * 2),
            long: Pages::zeroed(share(8, size_of::<LongSlot>())),
            spill: Spill::new(bytes / 16),
        }
    }

    /// The bucket of a short key.
    #[inline(always)]
    pub(crate) fn bucket_of(&self, key: u128) -> usize {
        hash_short(key) as usize & (self.short.len() - 1)
    }

    /// Fetches a bucket ahead of its probe.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bucket: usize) {
        prefetch(&raw const self.short[bucket]);
    }

    /// Fetches the slot of a piece of 16 to 31 bytes.
    #[inline(always)]
    pub(crate) fn prefetch_long(&self, key: [u128; 2]) {
        prefetch(&raw const self.long[hash_long(key) as usize & (self.long.len() - 1)]);
    }

    /// The ids of a short piece and how many of the four count.
    #[inline(always)]
    pub(crate) fn probe(&self, bucket: usize, key: u128) -> Option<([u32; LANES], usize)> {
        let [first, second] = &self.short[bucket].0;
        let slot = if second.key == key { second } else { first };
        if slot.key != key {
            return None;
        }
        Some((
            slot.ids.map(|id| id & ID_MASK),
            (slot.ids[0] >> COUNT_SHIFT) as usize,
        ))
    }

    /// Appends the ids of a piece that the short probe did not find; `false` if they are not known.
    pub(crate) fn find(
        &self,
        text: &[u8],
        start: usize,
        len: usize,
        tag: u8,
        out: &mut Vec<u32>,
    ) -> bool {
        if len <= SHORT {
            let key = short_key(text, start, len, tag);
            let bucket = &self.short[self.bucket_of(key)];
            let slot = bucket
                .0
                .iter()
                .find(|slot| slot.key | SPILLED == key | SPILLED);
            slot.is_some_and(|slot| self.take(slot.key, &slot.ids, out))
        } else if len <= LONG {
            let key = long_key(text, start, len, tag);
            let slot = &self.long[hash_long(key) as usize & (self.long.len() - 1)];
            let same = slot.key[0] == key[0] && slot.key[1] | SPILLED == key[1] | SPILLED;
            same && self.take(slot.key[1], &slot.ids, out)
        } else {
            self.spill.find(&text[start..start + len], tag, out)
        }
    }

    /// Appends what a slot holds, or what its place in the spill holds.
    fn take(&self, key: u128, ids: &[u32], out: &mut Vec<u32>) -> bool {
        if key & SPILLED != 0 {
            return self.spill.get(
                SpillPlace {
                    start: ids[0],
                    count: ids[1],
                    age: ids[2],
                },
                out,
            );
        }
        let count = (ids[0] >> COUNT_SHIFT) as usize;
        out.extend(ids[..count].iter().map(|id| id & ID_MASK));
        true
    }

    /// Remembers the ids of a piece.
    pub(crate) fn insert(&mut self, text: &[u8], start: usize, len: usize, tag: u8, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        if len <= SHORT {
            let key = short_key(text, start, len, tag);
            let Some((mark, ids)) = self.pack::<LANES>(ids) else {
                return;
            };
            let at = self.bucket_of(key);
            let [first, second] = &mut self.short[at].0;
            if first.key | SPILLED != key | SPILLED {
                *second = *first;
            }
            *first = Slot {
                key: key | mark,
                ids,
            };
        } else if len <= LONG {
            let mut key = long_key(text, start, len, tag);
            let Some((mark, ids)) = self.pack::<LONG_LANES>(ids) else {
                return;
            };
            let at = hash_long(key) as usize & (self.long.len() - 1);
            key[1] |= mark;
            self.long[at] = LongSlot { key, ids };
        } else {
            self.spill.insert(&text[start..start + len], tag, ids);
        }
    }

    /// Ids as a slot holds them: in place, or as a place in the spill.
    fn pack<const N: usize>(&mut self, ids: &[u32]) -> Option<(u128, [u32; N])> {
        let mut lanes = [0; N];
        if ids.len() <= N {
            lanes[..ids.len()].copy_from_slice(ids);
            lanes[0] |= (ids.len() as u32) << COUNT_SHIFT;
            return Some((0, lanes));
        }
        let place = self.spill.put(ids)?;
        lanes[..3].copy_from_slice(&[place.start, place.count, place.age]);
        Some((SPILLED, lanes))
    }

    /// Whether it is large enough to hold a vocabulary as well.
    pub(crate) fn has_room_for(&self, tokens: usize) -> bool {
        self.short.len() * 2 >= tokens
    }
}
