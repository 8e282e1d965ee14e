//! A 4-ary max-heap of candidate pairs, read lazily: counts only fall after a pair is pushed, so a
//! stale top is pushed down and nothing is ever searched for.

use std::cmp::Ordering;

use super::tokens::TokenList;
use crate::{Error, Result};

/// Which of two pairs with equal counts is merged first. The one place where ties are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// The lowest pair of token ids, as Hugging Face's trainer does.
    LowestIds,
    /// The greatest pair of byte strings, as Stanford's CS336 asks.
    GreatestBytes,
    /// The pair that occurs first in the texts as they are merged now, as minbpe's dictionary has it.
    FirstSeen,
    /// The lowest pair of ids where the ids of bytes are their values, as in rustbpe.
    ByteValues,
}

impl TieBreak {
    /// Every rule by its name in the settings; a new one is a variant, a line here and its `compare`.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("huggingface", Self::LowestIds),
        ("lexicographic", Self::GreatestBytes),
        ("first-seen", Self::FirstSeen),
        ("byte-values", Self::ByteValues),
    ];

    /// Returns the rule of that name.
    pub fn from_name(name: &str) -> Result<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|&(_, rule)| rule).ok_or_else(|| {
            let known: Vec<_> = Self::NAMED.iter().map(|(known, _)| *known).collect();
            Error::Input(format!("unknown tie rule {name:?}; expected one of {}", known.join(", ")))
        })
    }

    /// Returns whether it needs to know where a pair occurs, and so needs words in the order of the texts.
    pub fn needs_places(self) -> bool {
        self == Self::FirstSeen
    }

    /// `Greater` when pair `a` goes before pair `b`.
    fn compare(self, a: Candidate, b: Candidate, tokens: &TokenList) -> Ordering {
        match self {
            Self::LowestIds => b.key.cmp(&a.key),
            // No two pairs start at the same place, but both places may still be unknown.
            Self::FirstSeen => b.first.cmp(&a.first).then_with(|| b.key.cmp(&a.key)),
            Self::ByteValues => {
                let value = |id: u32| match tokens.get(id) {
                    &[byte] => u32::from(byte),
                    _ => id,
                };
                let [a, b] = [a.key, b.key].map(|key| {
                    let (left, right) = super::pairs::split(key);
                    (value(left), value(right))
                });
                b.cmp(&a)
            }
            Self::GreatestBytes => {
                let (a, b) = (a.key, b.key);
                let (a_left, a_right) = super::pairs::split(a);
                let (b_left, b_right) = super::pairs::split(b);
                let left = tokens.get(a_left).cmp(tokens.get(b_left));
                let right = || tokens.get(a_right).cmp(tokens.get(b_right));
                // Without unified tokens two pairs can spell alike; then the lowest ids go first.
                left.then_with(right).then_with(|| b.cmp(&a))
            }
        }
    }

    /// Sorts pairs of equal counts, the first one to merge last.
    pub fn sort(self, keys: &mut [u64], tokens: &TokenList) {
        match self {
            Self::LowestIds => keys.sort_unstable_by(|a, b| b.cmp(a)),
            _ => keys.sort_unstable_by(|&a, &b| {
                let [a, b] = [a, b].map(|key| Candidate::new(0, key));
                self.compare(a, b, tokens)
            }),
        }
    }
}

/// A pair and the count it had when it was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub count: u64,
    pub key: u64,
    /// The pair does not occur before this place; only for the rule that needs it, corrected when it comes up.
    pub first: u32,
}

impl Candidate {
    /// Creates a pair whose first place has not been looked up yet.
    pub fn new(count: u64, key: u64) -> Self {
        let first = 0;
        Self { count, key, first }
    }
}

/// The candidates, best first.
pub struct Heap {
    entries: Vec<Candidate>,
    tie: TieBreak,
}

impl Heap {
    /// Orders `entries` in linear time.
    pub fn new(entries: Vec<Candidate>, tie: TieBreak, tokens: &TokenList) -> Self {
        let mut heap = Self { entries, tie };
        if heap.entries.len() > 1 {
            for at in (0..=(heap.entries.len() - 2) / 4).rev() {
                heap.sink(at, heap.entries[at], tokens);
            }
        }
        heap
    }

    /// True when `a` goes before `b`.
    #[inline(always)]
    pub fn is_above(&self, a: Candidate, b: Candidate, tokens: &TokenList) -> bool {
        if a.count == b.count {
            self.tie.compare(a, b, tokens) == Ordering::Greater
        } else {
            a.count > b.count
        }
    }

    /// Returns the best candidate, stale or not.
    pub fn top(&self) -> Option<Candidate> {
        self.entries.first().copied()
    }

    /// Adds a candidate.
    pub fn push(&mut self, candidate: Candidate, tokens: &TokenList) {
        let mut at = self.entries.len();
        self.entries.push(candidate);
        while at > 0 {
            let parent = (at - 1) / 4;
            if !self.is_above(candidate, self.entries[parent], tokens) {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = candidate;
    }

    /// Puts `candidate` in the place of the top.
    pub fn replace_top(&mut self, candidate: Candidate, tokens: &TokenList) {
        self.sink(0, candidate, tokens);
    }

    /// Removes the top.
    pub fn pop(&mut self, tokens: &TokenList) {
        if let Some(last) = self.entries.pop() {
            if !self.entries.is_empty() {
                self.sink(0, last, tokens);
            }
        }
    }

    fn sink(&mut self, mut at: usize, candidate: Candidate, tokens: &TokenList) {
        let len = self.entries.len();
        loop {
            let first = 4 * at + 1;
            if first >= len {
                break;
            }
            let mut best = first;
            for child in first + 1..(first + 4).min(len) {
                if self.is_above(self.entries[child], self.entries[best], tokens) {
                    best = child;
                }
            }
            if !self.is_above(self.entries[best], candidate, tokens) {
                break;
            }
            self.entries[at] = self.entries[best];
            at = best;
        }
        self.entries[at] = candidate;
    }

    /// Gives everything, in no order.
    pub fn drain(&mut self) -> impl Iterator<Item = Candidate> + '_ {
        self.entries.drain(..)
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * std::mem::size_of::<Candidate>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(tie: TieBreak, keys: &[(u64, u32, u32)]) -> Vec<(u32, u32)> {
        let tokens = TokenList::new(0);
        let entry = |&(count, l, r): &(u64, u32, u32)| {
            Candidate::new(count, super::super::pairs::key(l, r))
        };
        let (half, rest) = keys.split_at(keys.len() / 2);
        let mut heap = Heap::new(half.iter().map(entry).collect(), tie, &tokens);
        for key in rest {
            heap.push(entry(key), &tokens);
        }
        let mut order = Vec::new();
        while let Some(top) = heap.top() {
            order.push(super::super::pairs::split(top.key));
            heap.pop(&tokens);
        }
        order
    }

    #[test]
    fn ties_follow_the_stated_rule() {
        let keys = [(1, 5, 9), (7, 5, 9), (7, 5, 8), (7, 4, 99), (9, 200, 0), (7, 5, 10)];
        let low = drain(TieBreak::LowestIds, &keys);
        assert_eq!(low, [(200, 0), (4, 99), (5, 8), (5, 9), (5, 10), (5, 9)]);
        let great = drain(TieBreak::GreatestBytes, &keys);
        assert_eq!(great, [(200, 0), (5, 10), (5, 9), (5, 8), (4, 99), (5, 9)]);
    }
}
