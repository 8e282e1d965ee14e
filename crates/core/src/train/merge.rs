//! Merging: the most frequent pair becomes a token, again and again, in time that follows the changes.
//!
//! Every pair knows its exact count and a list of the places where it stands. A step walks the list of
//! the best pair, joins its two tokens at each place that still holds them, and gathers what happens to
//! the neighbours per neighbouring id in dense arrays, so that the pair table is touched once per
//! distinct neighbour and not once per occurrence. Places go stale and are skipped when met; the arena of
//! lists is swept when full, so it never exceeds one and three quarters of the pairs of the start.
//!
//! A new token's pairs that occur fewer than `follow` times are not followed: their counts can only fall, so
//! they cannot be the best while the best is followed. When it no longer is, or when a token is made by a
//! second split, so that counts can rise, all pairs are counted anew and from then on all are followed.

use super::heap::Candidate;
use super::history::History;
use super::lists::Lists;
use super::neighbours::Neighbours;
use super::options::MergeOptions;
use super::pairs::{key, split, Pair, PairTable};
use super::queue::Queue;
use super::tokens::Tokens;
use super::veto::Veto;
use super::words::{Words, EDGE, INSIDE};
use crate::{Error, Result, Stop};

/// Pairs rarer than this are many and seldom merged; leaving them out halves the memory of the pairs.
const WORTH_FOLLOWING: u64 = 3;

/// A training run between two steps.
pub struct Merger {
    pub(super) words: Words,
    pub(super) pairs: PairTable,
    pub(super) lists: Lists,
    tokens: Tokens,
    queue: Queue,
    left: Neighbours,
    right: Neighbours,
    twins: Vec<u32>,
    options: MergeOptions,
    follow: u64,
    history: History,
    /// What a continued training leaves out; None where every pair may merge.
    veto: Option<Veto>,
}

/// One step's pair, and the token it becomes.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub left: u32,
    pub right: u32,
    pub token: u32,
    /// The token did not exist before, so no pair with it can.
    pub fresh: bool,
}

impl Merger {
    /// Counts the pairs of `words` and orders them.
    pub fn new(words: Words, options: MergeOptions) -> Self {
        let tokens = Tokens::new(options.tokens.saturating_sub(256));
        let (mut pairs, lists) = super::lists::first_pairs(&words);
        if options.max_token_length < 2 {
            pairs = PairTable::new(0);
        }
        let follow = options.min_frequency.max(WORTH_FOLLOWING);
        Self::start((words, pairs, lists), tokens, options, follow)
    }

    /// Goes on from a vocabulary: `words` are made of its `tokens`, and new ones come after them.
    pub fn continuing(words: Words, tokens: Tokens, options: MergeOptions, veto: Veto) -> Self {
        let (pairs, lists) = super::recount::all_pairs(&words, &tokens, options.max_token_length);
        let mut merger = Self::start((words, pairs, lists), tokens, options, 1);
        merger.veto = Some(veto);
        merger
    }

    fn start(
        (words, pairs, lists): (Words, PairTable, Lists),
        tokens: Tokens,
        options: MergeOptions,
        follow: u64,
    ) -> Self {
        let ids = tokens.len().max(options.tokens);
        Self {
            queue: Queue::new(candidates(&pairs), options.tie, &tokens),
            history: History::new(tokens.len()),
            words,
            pairs,
            lists,
            tokens,
            left: Neighbours::new(ids),
            right: Neighbours::new(ids),
            twins: Vec::new(),
            follow,
            options,
            veto: None,
        }
    }

    /// Makes `(left, right)` the next merge, whatever its count; gives the token.
    pub fn require(&mut self, left: u32, right: u32) -> Result<u32> {
        let known = self.tokens.len() as u32;
        if left >= known || right >= known || self.tokens.len() >= self.options.tokens {
            return Err(Error::Input(format!(
                "the required merge ({left}, {right}) names a token that is not there yet, or there is no \
                 room for it"
            )));
        }
        let absent = Pair {
            key: key(left, right),
            count: 0,
            start: 0,
            len: 0,
        };
        let pair = self.pairs.get(absent.key).map_or(absent, |pair| *pair);
        self.step(pair);
        Ok(self.history.products.last().copied().unwrap_or_default())
    }

    /// Does up to `limit` steps; true when there is nothing left to do.
    pub fn advance(&mut self, limit: usize, stop: &Stop) -> Result<bool> {
        for _ in 0..limit {
            stop.check()?;
            match self.best() {
                Some(best) => {
                    self.fetch_ahead();
                    self.step(best);
                }
                None => return Ok(true),
            }
        }
        Ok(self.best().is_none())
    }

    /// Does the steps of an earlier run again, without choosing them.
    pub fn replay(&mut self, steps: &[(u32, u32)], stop: &Stop) -> Result<()> {
        for &(left, right) in steps {
            stop.check()?;
            if self.count_of(key(left, right)) == 0 {
                self.follow_all();
            }
            match self.pairs.get(key(left, right)) {
                Some(pair) if pair.count > 0 && self.tokens.len() < self.options.tokens => {
                    let best = *pair;
                    self.step(best);
                }
                _ => {
                    return Err(Error::Input(format!(
                        "the checkpoint's merge {} cannot follow from these counts: it is of another run",
                        self.history.steps.len()
                    )))
                }
            }
        }
        Ok(())
    }

    /// The pair to merge next; stale candidates above it are put right on the way.
    fn best(&mut self) -> Option<Pair> {
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
            if now == top.count && now >= self.options.min_frequency.max(1) {
                return self.pairs.get(top.key).map(|pair| *pair);
            }
            if now == top.count {
                return None;
            }
            if now == 0 || now > top.count {
                // Gone, or pushed again with its higher count.
                self.queue.pop(top, &self.tokens);
            } else {
                self.queue.lower(top, now, &self.tokens);
            }
        }
    }

    /// Whether a continued training must leave this merge out. A token that the vocabulary had before is
    /// never made anew: texts that hold it split would change without a new token to tell.
    fn is_vetoed(&self, pair: u64) -> bool {
        let Some(veto) = &self.veto else {
            return false;
        };
        let (left, right) = split(pair);
        let spelled = [self.tokens.get(left), self.tokens.get(right)].concat();
        !veto.allows(pair, &spelled) || self.history.knew(&self.tokens, &spelled)
    }

    fn count_of(&mut self, key: u64) -> u64 {
        self.pairs.get(key).map_or(0, |pair| pair.count)
    }

    /// Counts all pairs anew and leaves none out from now on; false if that is so already.
    #[cold]
    fn follow_all(&mut self) -> bool {
        if self.follow <= 1 {
            return false;
        }
        self.follow = 1;
        (self.pairs, self.lists) = (PairTable::new(0), Lists::default());
        let longest = self.options.max_token_length;
        (self.pairs, self.lists) = super::recount::all_pairs(&self.words, &self.tokens, longest);
        self.queue = Queue::new(candidates(&self.pairs), self.options.tie, &self.tokens);
        true
    }

    fn step(&mut self, best: Pair) {
        let (left, right) = split(best.key);
        let (token, fresh) = self.tokens.join(left, right, self.options.unify);
        self.history.record(best, token, fresh);
        let best = if !fresh && self.follow_all() {
            self.pairs.get(best.key).map_or(best, |pair| *pair)
        } else {
            best
        };
        let best = self.make_room(best);
        if let Some(pair) = self.pairs.get(best.key) {
            pair.count = 0;
        }
        let step = Step {
            left,
            right,
            token,
            fresh,
        };
        let twins = self.join(step, best);
        self.lists.release(best.start, best.len);
        self.settle(step, twins);
    }

    /// Fetches what the next steps will probably touch: a pair's slot, later its list, then its words.
    #[inline(always)]
    fn fetch_ahead(&mut self) {
        if let Some(key) = self.queue.ahead(12) {
            self.pairs.prefetch(key);
        }
        if let Some(pair) = self.queue.ahead(8).and_then(|key| self.pairs.get(key)) {
            self.lists.prefetch(pair.start);
        }
        if let Some(pair) = self.queue.ahead(4).and_then(|key| self.pairs.get(key)) {
            for &place in self.lists.places(pair.start, pair.len.min(4)) {
                super::prefetch(&self.words.cells, place as usize);
            }
        }
    }

    /// Sweeps the lists if this step's new places might not fit; the pair's own list may move.
    fn make_room(&mut self, best: Pair) -> Pair {
        if !self.lists.fits(2 * best.len as usize) {
            self.lists
                .sweep(&mut self.pairs, &self.words.cells, &self.tokens);
            if let Some(moved) = self.pairs.get(best.key) {
                return *moved;
            }
        }
        best
    }

    /// Joins the pair at every place that holds it; gives the weight of pairs of two new tokens.
    fn join(&mut self, step: Step, best: Pair) -> u64 {
        let left_len = self.tokens.len_of(step.left) as usize;
        let len = left_len + self.tokens.len_of(step.right) as usize;
        let places = self.lists.places(best.start, best.len);
        let cells = &mut self.words.cells;
        let groups = &self.words.groups;
        let (mut group, mut joined_until, mut twin_weight) = (0usize, 0usize, 0u64);
        for (i, &place) in places.iter().enumerate() {
            if let Some(&ahead) = places.get(i + 12) {
                super::prefetch(cells, ahead as usize);
            }
            let at = place as usize;
            if cells[at] != step.left || cells[at + left_len] != step.right {
                continue;
            }
            let weight = groups.count_at(place, &mut group);
            let (before, after) = (cells[at - 1], cells[at + len]);
            cells[at + left_len - 1] = INSIDE;
            cells[at + left_len] = INSIDE;
            cells[at] = step.token;
            cells[at + len - 1] = step.token;
            if joined_until == at {
                // The neighbour was joined a moment ago: what it noted about us is undone in `settle`.
                twin_weight += weight;
                self.twins.push(place - len as u32);
            } else if before != EDGE {
                let start = place - self.tokens.len_of(before);
                self.left.note(before, weight, start);
            }
            if after != EDGE {
                self.right.note(after, weight, place);
            }
            joined_until = at + len;
        }
        twin_weight
    }

    /// Takes the weight gathered by `join` from the old pairs and gives it to the new ones.
    fn settle(&mut self, step: Step, twin_weight: u64) {
        let merged = key(step.left, step.right);
        let mut left = std::mem::take(&mut self.left);
        for i in 0..left.touched.len() {
            if let Some(&ahead) = left.touched.get(i + 8) {
                self.pairs.prefetch(key(ahead, step.left));
                self.pairs.prefetch(key(ahead, step.token));
            }
            let id = left.touched[i];
            let (weight, places) = left.take(id);
            self.lose(key(id, step.left), weight, merged);
            left.aim(id, self.gain(id, step.token, weight, places, step.fresh));
        }
        left.scatter(&mut self.lists);
        self.left = left;

        let mut right = std::mem::take(&mut self.right);
        for i in 0..right.touched.len() {
            if let Some(&ahead) = right.touched.get(i + 8) {
                self.pairs.prefetch(key(step.right, ahead));
                self.pairs.prefetch(key(step.token, ahead));
            }
            let id = right.touched[i];
            let (weight, places) = right.take(id);
            self.lose(key(step.right, id), weight, merged);
            let undone = if id == step.left { twin_weight } else { 0 };
            right.aim(
                id,
                self.gain(step.token, id, weight - undone, places, step.fresh),
            );
        }
        right.scatter(&mut self.lists);
        self.right = right;
        self.settle_twins(step, twin_weight);
        self.lists.restore_order();
    }

    fn settle_twins(&mut self, step: Step, weight: u64) {
        if weight == 0 {
            return;
        }
        let places = self.twins.len() as u32;
        // Pairs of two new tokens may have come from old ones of the same bytes too.
        let start = self.gain(step.token, step.token, weight, places, false);
        if let Some(start) = start {
            self.lists.write(start, &self.twins);
        }
        self.twins.clear();
    }

    #[inline(always)]
    fn lose(&mut self, old: u64, weight: u64, merged: u64) {
        if old != merged {
            if let Some(pair) = self.pairs.get(old) {
                pair.count = pair.count.saturating_sub(weight);
            }
        }
    }

    /// Gives a pair `weight` and room for `places`; where the first of them goes, if the pair may merge.
    #[inline(always)]
    fn gain(
        &mut self,
        left: u32,
        right: u32,
        weight: u64,
        places: u32,
        fresh: bool,
    ) -> Option<u32> {
        let too_long = self.tokens.len_of(left) + self.tokens.len_of(right);
        if weight < self.follow || too_long > self.options.max_token_length {
            return None;
        }
        let key = key(left, right);
        let known = if fresh { None } else { self.pairs.get(key) };
        let (count, start) = if let Some(pair) = known {
            let (first, start) = self.lists.extend(pair, places);
            pair.count += weight;
            pair.start = first;
            (pair.count, start)
        } else {
            let start = self.lists.reserve(places);
            self.pairs.insert(Pair {
                key,
                count: weight,
                start,
                len: places,
            });
            (weight, start)
        };
        self.queue.push(Candidate { count, key }, &self.tokens);
        Some(start)
    }

    /// The tokens so far; ids below 256 are the single bytes in Hugging Face's order.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The merges so far, as pairs of ids.
    pub fn merges(&self) -> &[(u32, u32)] {
        &self.history.merges
    }

    /// The token that each merge makes.
    pub fn products(&self) -> &[u32] {
        &self.history.products
    }

    /// The count each merge had when it was chosen.
    pub fn counts(&self) -> &[u64] {
        &self.history.counts
    }

    /// What [`Merger::replay`] needs to come back here.
    pub fn steps(&self) -> &[(u32, u32)] {
        &self.history.steps
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.words.memory() + self.pairs.memory() + self.lists.memory() + self.queue.memory()
    }
}

fn candidates(pairs: &PairTable) -> impl Iterator<Item = Candidate> + '_ {
    pairs.live().map(|pair| Candidate {
        count: pair.count,
        key: pair.key,
    })
}
