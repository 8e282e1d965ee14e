//! Which two symbols merge, and into which: one canonical pair per product.
//!
//! Symbols are internal numbers: the alphabet first, then products in rank order. So the product of a
//! pair is also its priority, and "the best pair" is "the smallest product".

use super::NONE;
use crate::pages::{prefetch, Pages};

const KEY_BITS: u32 = 21;
/// More symbols than this do not fit the packed entries of the pair table.
pub(crate) const SYMBOL_LIMIT: usize = (1 << KEY_BITS) - 1;
const EMPTY: u64 = u64::MAX;
/// Entries that are looked at without asking whether the one before was it.
const AT_ONCE: usize = 3;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// No pair has this key: it is larger than two symbols make.
const NO_KEY: u64 = u64::MAX;

/// A look into the table that has been prepared.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    key: u64,
    slot: usize,
}

impl Spot {
    /// Where nothing is.
    pub(crate) const NOWHERE: Self = Self {
        key: NO_KEY,
        slot: 0,
    };
}

/// `(left, right) -> product`, in one word per entry: 21 bits each.
pub(crate) struct PairTable {
    entries: Pages<u64>,
    shift: u32,
    /// One bit per hash: most neighbours never merge, and this says so from the second-level cache.
    filter: Vec<u64>,
    filter_shift: u32,
}

impl PairTable {
    /// An empty table with room for `pairs` entries.
    pub(crate) fn with_room(pairs: usize) -> Self {
        let slots = (pairs * 2 + 2).next_power_of_two().max(64);
        let bits = (slots * 16).clamp(1 << 12, 1 << 21);
        let mut entries = Pages::zeroed(slots);
        entries.fill(EMPTY);
        Self {
            entries,
            shift: 64 - slots.trailing_zeros(),
            filter: vec![0; bits / 64],
            filter_shift: 64 - bits.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn key(left: u32, right: u32) -> u64 {
        (u64::from(left) << KEY_BITS) | u64::from(right)
    }

    /// The product of two neighbours, or [`NONE`].
    #[inline(always)]
    pub(crate) fn get(&self, left: u32, right: u32) -> u32 {
        let key = Self::key(left, right);
        let hash = key.wrapping_mul(MULTIPLIER);
        let bit = hash >> self.filter_shift;
        if (self.filter[(bit >> 6) as usize] >> (bit & 63)) & 1 == 0 {
            return NONE;
        }
        self.find(key, hash)
    }

    /// Fetches what [`Self::get`] will read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, left: u32, right: u32) {
        let hash = Self::key(left, right).wrapping_mul(MULTIPLIER);
        prefetch(&raw const self.filter[(hash >> self.filter_shift >> 6) as usize]);
        prefetch(&raw const self.entries[(hash >> self.shift) as usize]);
    }

    /// Where a pair will be looked for, fetched ahead if the filter cannot rule it out.
    #[inline(always)]
    pub(crate) fn spot(&self, left: u32, right: u32) -> Spot {
        let key = Self::key(left, right);
        let hash = key.wrapping_mul(MULTIPLIER);
        let bit = hash >> self.filter_shift;
        let may_be = (self.filter[(bit >> 6) as usize] >> (bit & 63)) & 1 == 1;
        let spot = Spot {
            key: if may_be { key } else { NO_KEY },
            slot: if may_be {
                (hash >> self.shift) as usize
            } else {
                0
            },
        };
        prefetch(&raw const self.entries[spot.slot]);
        spot
    }

    /// As [`Self::get`], without a branch that depends on the answer: the wait is over by now, so a
    /// wrong guess would cost more than the look.
    #[allow(clippy::needless_bitwise_bool)] // one branch, hardly ever taken, instead of three
    #[inline(always)]
    pub(crate) fn get_at(&self, spot: Spot) -> u32 {
        let mask = self.entries.len() - 1;
        let mut product = NONE;
        let mut last = EMPTY;
        for step in 0..AT_ONCE {
            last = self.entries[(spot.slot + step) & mask];
            let found = (last & ((1 << KEY_BITS) - 1)) as u32;
            product = if last >> KEY_BITS == spot.key {
                found
            } else {
                product
            };
        }
        if (product == NONE) & (last != EMPTY) & (spot.key != NO_KEY) {
            return self.find(spot.key, spot.key.wrapping_mul(MULTIPLIER));
        }
        product
    }

    #[inline(always)]
    fn find(&self, key: u64, hash: u64) -> u32 {
        let mask = self.entries.len() - 1;
        let mut slot = (hash >> self.shift) as usize;
        loop {
            let entry = self.entries[slot & mask];
            if entry >> KEY_BITS == key {
                return (entry & ((1 << KEY_BITS) - 1)) as u32;
            }
            if entry == EMPTY {
                return NONE;
            }
            slot += 1;
        }
    }

    /// Adds a pair that is not in the table yet.
    pub(crate) fn insert(&mut self, left: u32, right: u32, product: u32) {
        let key = Self::key(left, right);
        let hash = key.wrapping_mul(MULTIPLIER);
        let bit = hash >> self.filter_shift;
        self.filter[(bit >> 6) as usize] |= 1 << (bit & 63);
        let mask = self.entries.len() - 1;
        let mut slot = (hash >> self.shift) as usize;
        while self.entries[slot & mask] != EMPTY {
            slot += 1;
        }
        self.entries[slot & mask] = (key << KEY_BITS) | u64::from(product);
    }
}
