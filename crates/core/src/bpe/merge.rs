//! The exact merge of any number of symbols: always the best pair, leftmost among equals.
//!
//! There are three ways. The heap is for any vocabulary and any piece. The scan is for tokens, each of which is
//! merged when a vocabulary is loaded: without it, cl100k takes 24 % more instructions. Sweeps are for runs of one
//! character, such as lines of dashes: without them, runs of 40 to 400 characters take twice as many instructions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::pairs::PairTable;
use super::NONE;

/// Up to this many symbols, finding the best pair by looking at all of them beats a heap.
const SHORT: usize = 64;
/// A sweep pays off if it merges at least one in this many symbols.
const WORTH_A_SWEEP: usize = 8;

/// Buffers that merges reuse from piece to piece.
#[derive(Default)]
pub(crate) struct MergeScratch {
    /// In: first symbols of a piece. Out: what they merge into.
    pub(crate) symbols: Vec<u32>,
    products: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    heap: BinaryHeap<Reverse<u64>>,
}

impl MergeScratch {
    /// Merges `self.symbols` in place.
    pub(crate) fn merge(&mut self, pairs: &PairTable) {
        self.find_products(pairs);
        self.merge_found(pairs);
    }

    /// Looks up the product of each pair of neighbours.
    fn find_products(&mut self, pairs: &PairTable) {
        let found = self.symbols.windows(2);
        self.products.clear();
        self.products.extend(found.map(|pair| pairs.get(pair[0], pair[1])));
    }

    /// Merges all symbols, whose products are known.
    fn merge_found(&mut self, pairs: &PairTable) {
        if self.symbols.len() <= SHORT {
            self.merge_by_scan(pairs);
        } else {
            self.merge_by_heap(pairs);
        }
    }

    /// Like [`Self::merge`], but does all merges of the best pair in one sweep.
    ///
    /// These come before anything else, as any pair that a merge makes possible ranks after it, unless the product is
    /// one of `late`, the symbols that rank after a product of theirs. Lines of dashes and runs of spaces need a few
    /// sweeps, each over half as many symbols; once sweeps stop paying off, the rest is merged as usual.
    pub(crate) fn merge_sweeping(&mut self, pairs: &PairTable, late: &[u32]) {
        loop {
            self.find_products(pairs);
            let best = self.products.iter().copied().fold(NONE, u32::min);
            if best == NONE {
                return;
            }
            let count = self.products.iter().filter(|&&product| product == best).count();
            if count * WORTH_A_SWEEP < self.symbols.len() || late.binary_search(&best).is_ok() {
                return self.merge_found(pairs);
            }
            sweep(&mut self.symbols, &self.products, best);
        }
    }

    fn merge_by_scan(&mut self, pairs: &PairTable) {
        let symbols = &mut self.symbols;
        let products = &mut self.products;
        while let Some((at, product)) = best(products) {
            symbols[at] = product;
            symbols.remove(at + 1);
            products.remove(at);
            if at < products.len() {
                products[at] = pairs.get(product, symbols[at + 1]);
            }
            if at > 0 {
                products[at - 1] = pairs.get(symbols[at - 1], product);
            }
        }
    }

    /// `O(n log n)` for any vocabulary: a heap of (product, position) with stale entries skipped.
    fn merge_by_heap(&mut self, pairs: &PairTable) {
        let symbols = &mut self.symbols;
        let n = symbols.len();
        self.next.clear();
        self.next.extend(1..=n as u32);
        self.previous.clear();
        self.previous.extend((0..n as u32).map(|at| at.wrapping_sub(1)));
        self.products.push(NONE);
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        let start = self.products.iter().enumerate().filter(|(_, product)| **product != NONE);
        entries.extend(start.map(|(at, product)| entry(*product, at)));
        let mut heap = BinaryHeap::from(entries);
        while let Some(Reverse(packed)) = heap.pop() {
            let (product, at) = ((packed >> 32) as u32, packed as u32 as usize);
            if self.products[at] != product {
                continue;
            }
            let gone = self.next[at] as usize;
            let after = self.next[gone] as usize;
            symbols[at] = product;
            symbols[gone] = NONE;
            self.products[gone] = NONE;
            self.products[at] = NONE;
            self.next[at] = after as u32;
            if after < n {
                self.previous[after] = at as u32;
                self.products[at] = pairs.get(product, symbols[after]);
                if self.products[at] != NONE {
                    heap.push(entry(self.products[at], at));
                }
            }
            let before = self.previous[at];
            if before != NONE {
                let before = before as usize;
                self.products[before] = pairs.get(symbols[before], product);
                if self.products[before] != NONE {
                    heap.push(entry(self.products[before], before));
                }
            }
        }
        self.heap = heap;
        symbols.retain(|symbol| *symbol != NONE);
    }
}

/// Does every merge into `best`, from left to right.
fn sweep(symbols: &mut Vec<u32>, products: &[u32], best: u32) {
    let (mut from, mut to) = (0, 0);
    while from < symbols.len() {
        let merges = products.get(from) == Some(&best);
        symbols[to] = if merges { best } else { symbols[from] };
        from += 1 + usize::from(merges);
        to += 1;
    }
    symbols.truncate(to);
}

fn entry(product: u32, at: usize) -> Reverse<u64> {
    Reverse((u64::from(product) << 32) | at as u64)
}

/// Returns the leftmost smallest product, if any pair merges at all.
fn best(products: &[u32]) -> Option<(usize, u32)> {
    let (at, product) = products.iter().enumerate().min_by_key(|(_, product)| **product)?;
    (*product != NONE).then_some((at, *product))
}
