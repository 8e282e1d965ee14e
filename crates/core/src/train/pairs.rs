//! (left, right) -> count and the list of places, in one open-addressing table.

use super::hash;

const FREE: u64 = u64::MAX;

/// Returns a pair of token ids as one number that sorts as the pair does.
#[inline(always)]
pub fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Returns the two ids of a [`key`].
#[inline(always)]
pub fn split(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

/// A pair, how often it occurs now, and where its places are in the list arena.
#[derive(Clone, Copy)]
pub struct Pair {
    pub key: u64,
    pub count: u64,
    pub start: u32,
    pub len: u32,
}

const EMPTY: Pair = Pair { key: FREE, count: 0, start: 0, len: 0 };

/// All pairs that occur. A pair whose count has fallen to zero is forgotten at the next growth. Up to three quarters
/// are filled: probes are longer than in a table twice as large, but the memory that it takes, and its pages, cost more.
pub struct PairCounts {
    slots: Vec<Pair>,
    filled: usize,
}

impl PairCounts {
    /// Room for `expected` pairs before the first growth.
    pub fn new(expected: usize) -> Self {
        Self {
            slots: crate::pages::filled(EMPTY, (expected * 2).next_power_of_two().max(1 << 10)),
            filled: 0,
        }
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        (hash::of_pair(key) >> 20) as usize & (self.slots.len() - 1)
    }

    /// Returns the pair, if it has been seen.
    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<&mut Pair> {
        let mask = self.slots.len() - 1;
        let mut at = self.place(key);
        loop {
            let found = self.slots[at].key;
            if found == key {
                return Some(&mut self.slots[at]);
            }
            if found == FREE {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// Asks the processor to fetch the pair's slot ahead of [`PairCounts::get`].
    #[inline(always)]
    pub fn prefetch(&self, key: u64) {
        super::prefetch(&self.slots, self.place(key));
    }

    /// Adds a pair that is not in the table.
    pub fn insert(&mut self, pair: Pair) {
        if (self.filled + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.put(pair);
    }

    fn put(&mut self, pair: Pair) {
        let mask = self.slots.len() - 1;
        let mut at = self.place(pair.key);
        while self.slots[at].key != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = pair;
        self.filled += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let live = self.slots.iter().filter(|pair| pair.count > 0).count();
        let wider = crate::pages::filled(EMPTY, (live * 2).next_power_of_two().max(1 << 10));
        let old = std::mem::replace(&mut self.slots, wider);
        self.filled = 0;
        for pair in old.into_iter().filter(|pair| pair.count > 0) {
            self.put(pair);
        }
    }

    /// Returns every pair that occurs.
    pub fn live(&self) -> impl Iterator<Item = &Pair> {
        self.slots.iter().filter(|pair| pair.count > 0)
    }

    /// Returns every pair that occurs, to be moved in the list arena.
    pub fn live_mut(&mut self) -> impl Iterator<Item = &mut Pair> {
        self.slots.iter_mut().filter(|pair| pair.count > 0)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.slots.len() * std::mem::size_of::<Pair>()
    }
}
