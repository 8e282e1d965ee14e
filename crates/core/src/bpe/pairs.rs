//! Which two symbols merge, and into what: one canonical pair per product.
//!
//! Symbols are internal numbers: the alphabet first, then products in rank order. So the product of a
//! pair is also its priority, and "the best pair" is "the smallest product".
//!
//! Every pair has two possible slots in the table and is in one of them, so a lookup is two loads and no loop:
//! whether a pair merges is hard to predict, and a misprediction would cost more than both loads.

use super::NONE;
use crate::hash::{SALT, SPREAD};
use crate::pages::{prefetch, Pages};

const SYMBOL_BITS: u32 = 21;
/// More symbols than this do not fit in the packed entries of the pair table.
pub(crate) const SYMBOL_LIMIT: usize = (1 << SYMBOL_BITS) - 1;
const EMPTY: u64 = u64::MAX;
/// One for each of a pair's slots.
const MULTIPLIERS: [u64; 2] = [SPREAD, SALT];
/// If inserting a pair displaces this many others, the table is too full.
const MOST_MOVES: usize = 256;

/// A prepared lookup in the table.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    key: u64,
    slots: [u32; 2],
}

impl Spot {
    /// Finds nothing: no pair has this key, which is above that of any two symbols.
    pub(crate) const NOWHERE: Self = Self { key: 1 << 63, slots: [0; 2] };
}

/// `(left, right) -> product`, in one word per entry: 21 bits each.
pub(crate) struct PairTable {
    entries: Pages<u64>,
    shift: u32,
}

impl PairTable {
    /// Creates an empty table with room for `pairs` entries.
    pub(crate) fn with_room(pairs: usize) -> Self {
        // In theory, two slots each are enough up to half of the table.
        let slots = (pairs * 9 / 4).next_power_of_two().max(64);
        let (entries, shift) = Self::empty(slots);
        Self { entries, shift }
    }

    fn empty(slots: usize) -> (Pages<u64>, u32) {
        let mut entries = Pages::zeroed(slots);
        entries.fill(EMPTY);
        (entries, 64 - slots.trailing_zeros())
    }

    /// Returns both symbols, above the bits of a product.
    #[inline(always)]
    fn key(left: u32, right: u32) -> u64 {
        (u64::from(left) << SYMBOL_BITS | u64::from(right)) << SYMBOL_BITS
    }

    #[inline(always)]
    fn slots(&self, key: u64) -> [u32; 2] {
        MULTIPLIERS.map(|multiplier| (key.wrapping_mul(multiplier) >> self.shift) as u32)
    }

    /// Returns the product of two neighbours, or [`NONE`].
    #[inline(always)]
    pub(crate) fn get(&self, left: u32, right: u32) -> u32 {
        let key = Self::key(left, right);
        let slots = self.slots(key);
        self.get_at(Spot { key, slots })
    }

    /// Returns the slots in which a pair will be looked up, prefetched. A filter of pairs that never merge saved most of
    /// these fetches but had to be waited for itself: without it, English and code not seen before are 5 to 12 %
    /// faster (Llama 3).
    #[inline(always)]
    pub(crate) fn spot(&self, left: u32, right: u32) -> Spot {
        let key = Self::key(left, right);
        let slots = self.slots(key);
        for slot in slots {
            prefetch(self.entries.as_ptr().wrapping_add(slot as usize));
        }
        Spot { key, slots }
    }

    /// Returns the product of a pair, or [`NONE`].
    #[inline(always)]
    pub(crate) fn get_at(&self, spot: Spot) -> u32 {
        // The mask changes nothing; it tells the compiler that the entry exists.
        let mask = self.entries.len() - 1;
        let [first, second] = spot.slots.map(|slot| self.entries[slot as usize & mask] ^ spot.key);
        let product = first.min(second);
        if product >> SYMBOL_BITS == 0 {
            product as u32
        } else {
            NONE
        }
    }

    /// Adds a pair that is not in the table yet.
    pub(crate) fn insert(&mut self, left: u32, right: u32, product: u32) {
        let key = Self::key(left, right);
        let mut entry = key | u64::from(product);
        while let Err(homeless) = self.place(entry) {
            self.grow();
            entry = homeless;
        }
    }

    /// Puts an entry in one of its slots; the entry that was there moves to its other slot. Returns the entry that
    /// finds none.
    fn place(&mut self, mut entry: u64) -> Result<(), u64> {
        let mut slot = self.slots(key_of(entry))[0];
        for _ in 0..MOST_MOVES {
            std::mem::swap(&mut entry, &mut self.entries[slot as usize]);
            if entry == EMPTY {
                return Ok(());
            }
            let [first, second] = self.slots(key_of(entry));
            slot = if slot == first { second } else { first };
        }
        Err(entry)
    }

    /// Doubles the room, for a set of pairs that happen to compete for the same slots.
    fn grow(&mut self) {
        let (entries, shift) = Self::empty(self.entries.len() * 2);
        let old = std::mem::replace(&mut self.entries, entries);
        self.shift = shift;
        for entry in old.iter().filter(|entry| **entry != EMPTY) {
            let mut entry = *entry;
            while let Err(homeless) = self.place(entry) {
                self.grow();
                entry = homeless;
            }
        }
    }
}

/// Returns an entry without its product.
fn key_of(entry: u64) -> u64 {
    entry >> SYMBOL_BITS << SYMBOL_BITS
}

#[cfg(test)]
mod tests {
    use super::super::NONE;
    use super::PairTable;

    #[test]
    fn all_pairs_are_found_in_a_table_that_was_meant_for_fewer() {
        let mut table = PairTable::with_room(10);
        let pairs = |product: u32| (product % 61, product / 61);
        for product in 0..5000 {
            let (left, right) = pairs(product);
            table.insert(left, right, product);
        }
        for product in 0..5000 {
            let (left, right) = pairs(product);
            assert_eq!(table.get(left, right), product);
            assert_eq!(table.get_at(table.spot(left, right)), product);
            assert_eq!(table.get(left + 61, right), NONE);
            assert_eq!(table.get_at(table.spot(left + 61, right)), NONE);
        }
    }
}
