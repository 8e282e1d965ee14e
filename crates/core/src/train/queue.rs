//! Candidate pairs, best first: a heap of the frequent ones, and a plain list per count of all others.
//!
//! Almost all pairs are rare, so a heap of them is large, and each step through it misses the cache. A list
//! per count needs no order until its turn comes; then it is sorted once, and the next pairs are known early
//! enough to prefetch what their merges will touch.

use super::heap::{Candidate, Heap, TieBreak};
use super::tokens::TokenList;

/// Pairs at least this frequent are in the heap: some thousands, which stay in the cache.
const FREQUENT: usize = 1 << 12;

/// The candidates, read lazily: a count that has fallen since is corrected when it comes up.
pub struct Queue {
    frequent: Heap,
    /// Keys by count, in no order.
    rare: Vec<Vec<u64>>,
    /// The count whose turn it is among the rare; [`FREQUENT`] before the first.
    level: usize,
    /// The keys of that count, the best one last.
    sorted: Vec<u64>,
    /// Keys of that count that were added after it was sorted.
    late: Heap,
    tie: TieBreak,
}

impl Queue {
    /// Takes candidates in any order.
    pub fn new(all: impl Iterator<Item = Candidate>, tie: TieBreak, tokens: &TokenList) -> Self {
        let mut rare = vec![Vec::new(); FREQUENT];
        let mut frequent = Vec::new();
        for candidate in all {
            match rare.get_mut(candidate.count as usize) {
                Some(list) => list.push(candidate.key),
                None => frequent.push(candidate),
            }
        }
        Self {
            frequent: Heap::new(frequent, tie, tokens),
            rare,
            level: FREQUENT,
            sorted: Vec::new(),
            late: Heap::new(Vec::new(), tie, tokens),
            tie,
        }
    }

    /// Returns the best candidate, stale or not.
    #[inline]
    pub fn top(&mut self, tokens: &TokenList) -> Option<Candidate> {
        if let Some(top) = self.frequent.top() {
            return Some(top);
        }
        while self.sorted.is_empty() && self.late.top().is_none() {
            self.level = self.level.checked_sub(1)?;
            self.open(tokens);
        }
        let count = self.level as u64;
        let first = self.sorted.last().map(|&key| Candidate::new(count, key));
        match (first, self.late.top()) {
            (Some(first), Some(late)) if self.late.is_above(first, late, tokens) => Some(first),
            (first, late) => late.or(first),
        }
    }

    /// Sorts the keys of the current count. If the order is by places, these are looked up only when a pair
    /// comes up, so the keys go into the heap instead.
    fn open(&mut self, tokens: &TokenList) {
        let mut keys = std::mem::take(&mut self.rare[self.level]);
        if self.tie.needs_places() {
            let count = self.level as u64;
            let all = keys.into_iter().map(|key| Candidate::new(count, key));
            self.late = Heap::new(all.collect(), self.tie, tokens);
        } else {
            self.tie.sort(&mut keys, tokens);
            self.sorted = keys;
        }
    }

    /// Removes `top`, which is what [`Queue::top`] gave.
    #[inline]
    pub fn pop(&mut self, top: Candidate, tokens: &TokenList) {
        if self.frequent.top().is_some() {
            self.frequent.pop(tokens);
        } else if self.late.top() == Some(top) {
            self.late.pop(tokens);
        } else {
            self.sorted.pop();
        }
    }

    /// Puts `top`, which is what [`Queue::top`] gave, back as `lower`: rarer, or with a later place.
    #[inline]
    pub fn lower(&mut self, top: Candidate, lower: Candidate, tokens: &TokenList) {
        if lower.count as usize >= FREQUENT {
            self.frequent.replace_top(lower, tokens);
        } else {
            self.pop(top, tokens);
            self.push(lower, tokens);
        }
    }

    /// Adds a candidate.
    #[inline]
    pub fn push(&mut self, candidate: Candidate, tokens: &TokenList) {
        let count = candidate.count as usize;
        if count >= FREQUENT {
            self.frequent.push(candidate, tokens);
            return;
        }
        match count.cmp(&self.level) {
            std::cmp::Ordering::Less => self.rare[count].push(candidate.key),
            std::cmp::Ordering::Equal => self.late.push(candidate, tokens),
            std::cmp::Ordering::Greater => {
                self.close();
                self.level = count + 1;
                self.rare[count].push(candidate.key);
            }
        }
    }

    /// Puts the keys of the current count back, because a higher count was added.
    #[cold]
    fn close(&mut self) {
        let list = &mut self.rare[self.level];
        list.append(&mut self.sorted);
        list.extend(self.late.drain().map(|candidate| candidate.key));
    }

    /// Returns the key that comes `ahead` places after the top, unless a late one comes in between.
    #[inline(always)]
    pub fn peek_ahead(&self, ahead: usize) -> Option<u64> {
        let at = self.sorted.len().checked_sub(ahead + 1)?;
        Some(self.sorted[at])
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let rare: usize = self.rare.iter().map(Vec::capacity).sum();
        self.frequent.memory() + self.late.memory() + (rare + self.sorted.capacity()) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::key;
    use super::*;

    /// Pops everything from a queue and a heap that see the same pushes; they must agree.
    #[test]
    fn order_is_that_of_one_heap() {
        let tokens = TokenList::new(0);
        for (_, tie) in TieBreak::NAMED {
            let mut state = 3u64;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                (state >> 33) % below
            };
            let mut candidate = |most: u64| {
                let count = random(most) + 1;
                Candidate::new(count, key(random(256) as u32, random(256) as u32))
            };
            let first: Vec<Candidate> = (0..200).map(|_| candidate(9000)).collect();
            let mut queue = Queue::new(first.iter().copied(), tie, &tokens);
            let mut heap = Heap::new(first, tie, &tokens);
            for round in 0..2000u64 {
                let (top, expected) = (queue.top(&tokens), heap.top());
                assert_eq!(top, expected, "round {round} {tie:?}");
                let Some(top) = top else { break };
                match round % 5 {
                    0 => {
                        // Sometimes above the top: counts can rise.
                        let more = candidate(top.count + top.count / 8 + 1);
                        queue.push(more, &tokens);
                        heap.push(more, &tokens);
                    }
                    1 if top.count > 1 => {
                        let count = top.count - 1;
                        let lower = Candidate { count, ..top };
                        queue.lower(top, lower, &tokens);
                        heap.replace_top(lower, &tokens);
                    }
                    _ => {
                        queue.pop(top, &tokens);
                        heap.pop(&tokens);
                    }
                }
            }
            assert_eq!(queue.top(&tokens), None);
        }
    }
}
