//! The exact merge of several short words side by side.
//!
//! One merge after the other is a chain of waits: each product decides which two pairs are looked up next,
//! and the pair table is larger than the near caches. Words do not depend on each other, so their waits
//! can overlap: every word chooses its best pair and fetches what it will ask, then every word asks.

use super::merge_short::{CAPACITY, POSITION_BITS};
use super::pairs::{PairTable, Spot, SYMBOL_LIMIT};
use super::tables::Tables;
use super::NONE;

/// Words that are merged at a time: their waits are then mostly hidden, and all fit the first-level cache.
pub(crate) const WORDS: usize = 8;
/// Most words have no more symbols than this; the search for the best pair is then half as long.
const FEW: usize = CAPACITY / 2;
/// Stands where a word has no neighbour; no symbol has this number, so no pair has it either.
const OUTSIDE: u32 = SYMBOL_LIMIT as u32;

/// Packed words from here on stand for no pair: products are far smaller.
const NO_PAIR: u32 = NONE << POSITION_BITS;

/// Product and place in one word, the product first; no product stays above all products.
#[inline(always)]
fn pack(product: u32, at: usize) -> u32 {
    (product << POSITION_BITS) | at as u32
}

/// A word of up to [`CAPACITY`] symbols on its way to its tokens.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    symbols: [u32; CAPACITY],
    /// Product and place of each pair: the smallest is the best, and the leftmost of equals.
    packed: [u32; CAPACITY],
    /// Symbols that are left, as bits.
    live: u64,
    /// The last merge: its place, that of its left neighbour, and the looks at what it merges with.
    at: usize,
    left: usize,
    spots: [Spot; 2],
}

impl Word {
    /// A place for a word.
    pub(crate) const EMPTY: Self = Self {
        symbols: [0; CAPACITY],
        packed: [NONE; CAPACITY],
        live: 0,
        at: 0,
        left: 0,
        spots: [Spot::NOWHERE; 2],
    };

    /// Starts with the bytes of a word, of which there are 1 to [`CAPACITY`].
    pub(crate) fn start(&mut self, tables: &Tables, letters: &[u32; 256], bytes: &[u8]) {
        for (symbol, byte) in self.symbols.iter_mut().zip(bytes) {
            *symbol = letters[usize::from(*byte)];
        }
        self.packed = [NONE; CAPACITY];
        for (at, pair) in bytes.windows(2).enumerate() {
            self.packed[at] = pack(tables.byte_pair(pair[0], pair[1]), at);
        }
        self.live = (1 << bytes.len()) - 1;
    }

    /// Makes the best merge and fetches what its neighbours will be asked; `false` if there is none.
    #[inline(always)]
    fn choose<const N: usize>(&mut self, pairs: &PairTable) -> bool {
        let best = self.packed[..N].iter().copied().fold(NONE, u32::min);
        if best >= NO_PAIR {
            return false;
        }
        let product = best >> POSITION_BITS;
        let at = best as usize % CAPACITY;
        let after = self.live & (!1 << at);
        let gone = after.trailing_zeros() as usize % CAPACITY;
        let next = after & after.wrapping_sub(1);
        let before = self.live & ((1 << at) - 1);
        self.live &= !(1 << gone);
        self.symbols[at] = product;
        self.packed[gone] = NONE;
        let right = self.symbols[next.trailing_zeros() as usize % CAPACITY];
        let right = if next == 0 { OUTSIDE } else { right };
        let left_at = (63 - (before | 1).leading_zeros() as usize) % CAPACITY;
        let left = if before == 0 {
            OUTSIDE
        } else {
            self.symbols[left_at]
        };
        self.at = at;
        self.left = if before == 0 { at } else { left_at };
        self.spots = [pairs.spot(left, product), pairs.spot(product, right)];
        true
    }

    /// Asks what the last product merges with.
    #[inline(always)]
    fn settle(&mut self, pairs: &PairTable) {
        let [left, right] = self.spots;
        // Without a left neighbour both answers have the same place, and the second one counts.
        self.packed[self.left] = pack(pairs.get_at(left), self.left);
        self.packed[self.at] = pack(pairs.get_at(right), self.at);
    }

    /// Where the symbols that are left start, as bits.
    #[inline(always)]
    pub(crate) fn starts(&self) -> u64 {
        self.live
    }

    /// The symbol that starts at a place.
    #[inline(always)]
    pub(crate) fn symbol(&self, at: usize) -> u32 {
        self.symbols[at % CAPACITY]
    }

    /// Puts the ids of the symbols that are left to the front; gives their number.
    pub(crate) fn finish(&mut self, ids: &[u32]) -> usize {
        let mut count = 0;
        while self.live != 0 {
            let symbol = self.symbols[self.live.trailing_zeros() as usize % CAPACITY];
            self.symbols[count] = ids[symbol as usize];
            count += 1;
            self.live &= self.live - 1;
        }
        count
    }

    /// The ids that [`Self::finish`] has put to the front, and whatever lies behind them.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.symbols
    }
}

/// Merges all words to their end; `longest` is the largest number of symbols that one started with.
pub(crate) fn merge(pairs: &PairTable, words: &mut [Word], longest: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi1") {
        // SAFETY: both features were just detected.
        return unsafe { merge_avx2(pairs, words, longest) };
    }
    merge_any(pairs, words, longest);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1")]
fn merge_avx2(pairs: &PairTable, words: &mut [Word], longest: usize) {
    merge_any(pairs, words, longest);
}

#[inline(always)]
fn merge_any(pairs: &PairTable, words: &mut [Word], longest: usize) {
    if longest <= FEW {
        merge_rounds::<FEW>(pairs, words);
    } else {
        merge_rounds::<CAPACITY>(pairs, words);
    }
}

#[inline(always)]
fn merge_rounds<const N: usize>(pairs: &PairTable, words: &mut [Word]) {
    debug_assert!(words.len() <= WORDS);
    let mut busy: u32 = (1 << words.len()) - 1;
    while busy != 0 {
        for (bit, word) in words.iter_mut().enumerate() {
            if busy >> bit & 1 == 1 && !word.choose::<N>(pairs) {
                busy &= !(1 << bit);
            }
        }
        for (bit, word) in words.iter_mut().enumerate() {
            if busy >> bit & 1 == 1 {
                word.settle(pairs);
            }
        }
    }
}
