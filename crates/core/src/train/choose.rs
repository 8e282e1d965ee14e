//! Which pair is merged next.
//!
//! A new token's pairs that occur fewer than `follow` times are not followed: their counts can only fall, so
//! they cannot be the best while the best one occurs more often. When it no longer does, or when a token is made by a
//! second split, so that counts can rise, all pairs are counted again and from then on all are followed.

use super::heap::Candidate;
use super::join::FETCHED_AHEAD;
use super::lists::Lists;
use super::merge::Merger;
use super::pairs::{split, Pair, PairCounts};
use super::queue::Queue;
use super::words::prefetch_around;

/// About how many bytes a pair has; only what is fetched ahead depends on it.
const USUAL_LENGTH: usize = 8;

impl Merger {
    /// Returns the pair to merge next; stale candidates above it are corrected on the way.
    pub(super) fn best(&mut self) -> Option<Pair> {
        if self.tokens.len() >= self.options.tokens {
            return None;
        }
        loop {
            let Some(top) = self.queue.top(&self.tokens) else {
                if self.follow_all() {
                    continue;
                }
                return None;
            };
            let now = self.count_of(top.key);
            if now == top.count
                && now < self.follow
                && self.options.min_frequency < self.follow
                && self.follow_all()
            {
                continue;
            }
            if now == top.count && self.is_vetoed(top.key) {
                if let Some(pair) = self.pairs.get(top.key) {
                    pair.count = 0;
                }
                self.queue.pop(top, &self.tokens);
                continue;
            }
            if now == 0 || now > top.count {
                // Gone, or pushed again with its higher count.
                self.queue.pop(top, &self.tokens);
                continue;
            }
            let real = Candidate { count: now, key: top.key, first: self.first_place(top.key) };
            if real != top {
                self.queue.lower(top, real, &self.tokens);
            } else if now >= self.options.min_frequency.max(1) {
                return self.pairs.get(top.key).map(|pair| *pair);
            } else {
                return None;
            }
        }
    }

    /// Returns where a pair first occurs; 0 if the tie rule does not need it. Earlier places that no longer hold the
    /// pair are dropped from its list, so that they are not visited again.
    #[inline]
    fn first_place(&mut self, key: u64) -> u32 {
        if !self.options.tie.needs_places() {
            return 0;
        }
        let (left, right) = split(key);
        let step = self.tokens.len_of(left) as usize;
        let Some(pair) = self.pairs.get(key) else {
            return 0;
        };
        let places = self.lists.places(pair.start, pair.len).iter();
        let holds = |&&place: &&u32| {
            let at = place as usize;
            self.words.cells[at] == left && self.words.cells[at + step] == right
        };
        let stale = places.take_while(|place| !holds(place)).count() as u32;
        pair.start += stale;
        pair.len -= stale;
        self.lists.places(pair.start, pair.len).first().copied().unwrap_or(0)
    }

    /// Returns whether continued training must leave this merge out. A token that the vocabulary already had is
    /// never made again: texts in which it is split would change although they contain no new token.
    fn is_vetoed(&self, pair: u64) -> bool {
        let Some(veto) = &self.veto else {
            return false;
        };
        let (left, right) = split(pair);
        let spelled = [self.tokens.get(left), self.tokens.get(right)].concat();
        !veto.allows(pair, &spelled) || self.history.started_with(&self.tokens, &spelled)
    }

    pub(super) fn count_of(&mut self, key: u64) -> u64 {
        self.pairs.get(key).map_or(0, |pair| pair.count)
    }

    /// Counts all pairs again and follows all of them from now on; false if that is so already.
    #[cold]
    pub(super) fn follow_all(&mut self) -> bool {
        if self.follow <= 1 {
            return false;
        }
        self.follow = 1;
        (self.pairs, self.lists) = (PairCounts::new(0), Lists::default());
        let longest = self.options.max_token_length;
        (self.pairs, self.lists) = super::recount::all_pairs(&self.words, &self.tokens, longest);
        self.queue = Queue::new(candidates(&self.pairs), self.options.tie, &self.tokens);
        true
    }

    /// Fetches what the next steps will probably touch: a pair's slot, later its list, then its words.
    #[inline(always)]
    pub(super) fn fetch_ahead(&mut self) {
        if let Some(key) = self.queue.peek_ahead(12) {
            self.pairs.prefetch(key);
        }
        if let Some(pair) = self.queue.peek_ahead(8).and_then(|key| self.pairs.get(key)) {
            self.lists.prefetch(pair.start);
        }
        if let Some(pair) = self.queue.peek_ahead(4).and_then(|key| self.pairs.get(key)) {
            for &place in self.lists.places(pair.start, pair.len.min(FETCHED_AHEAD as u32)) {
                prefetch_around(&self.words.cells, place, USUAL_LENGTH);
            }
        }
    }
}

/// Returns every pair that may be chosen.
pub(super) fn candidates(pairs: &PairCounts) -> impl Iterator<Item = Candidate> + '_ {
    pairs.live().map(|pair| Candidate::new(pair.count, pair.key))
}
