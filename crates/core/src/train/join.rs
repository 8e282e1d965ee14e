//! One step: a pair becomes a token wherever it occurs.
//!
//! A step walks the list of the pair, joins its two tokens at each place that still holds them, and gathers what
//! happens to the neighbours per neighbouring id in dense arrays, so that the pair table is touched once per
//! distinct neighbour and not once per occurrence. Places go stale and are skipped; the arena of lists is swept when
//! full, so it never exceeds one and three quarters of the initial pairs.

use super::heap::Candidate;
use super::merge::Merger;
use super::pairs::{key, split, Pair};
use super::words::{prefetch_around, EDGE, INSIDE};

/// How many places ahead a step asks for the cells; of the first ones [`Merger::fetch_ahead`] has asked before.
pub(super) const FETCHED_AHEAD: usize = 12;
/// How many neighbours ahead their pairs are asked for.
const SETTLED_AHEAD: usize = 8;

/// One step's pair, and the token it becomes.
#[derive(Clone, Copy)]
struct PairJoin {
    left: u32,
    right: u32,
    token: u32,
    /// The token did not exist before, so no pair with it can.
    fresh: bool,
}

impl Merger {
    pub(super) fn step(&mut self, best: Pair) {
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
        let step = PairJoin { left, right, token, fresh };
        let twins = self.join(step, best);
        self.lists.release(best.start, best.len);
        self.settle(step, twins);
    }

    /// Sweeps the lists if this step's new places might not fit; the pair's own list may move.
    fn make_room(&mut self, best: Pair) -> Pair {
        if !self.lists.fits(2 * best.len as usize) {
            self.lists.sweep(&mut self.pairs, &self.words.cells, &self.tokens);
            if let Some(moved) = self.pairs.get(best.key) {
                return *moved;
            }
        }
        best
    }

    /// Joins the pair at every place that holds it; returns the weight of pairs of two new tokens.
    fn join(&mut self, step: PairJoin, best: Pair) -> u64 {
        let left_len = self.tokens.len_of(step.left) as usize;
        let len = left_len + self.tokens.len_of(step.right) as usize;
        let places = self.lists.places(best.start, best.len);
        let cells = &mut self.words.cells;
        let groups = &self.words.groups;
        let (mut group, mut joined_until, mut twin_weight) = (0usize, 0usize, 0u64);
        for (i, &place) in places.iter().enumerate() {
            if let Some(&ahead) = places.get(i + FETCHED_AHEAD) {
                prefetch_around(cells, ahead, len);
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
                // The neighbour has just been joined: what it noted about this token is undone in `settle`.
                twin_weight += weight;
                self.twins.push(place - len as u32);
            } else if before != EDGE {
                let start = place - self.tokens.len_of(before);
                if self.left.note(before, weight, start) {
                    self.pairs.prefetch(key(before, step.left));
                }
            }
            if after != EDGE && self.right.note(after, weight, place) {
                self.pairs.prefetch(key(step.right, after));
            }
            joined_until = at + len;
        }
        twin_weight
    }

    /// Takes the weight gathered by `join` from the old pairs and gives it to the new ones.
    fn settle(&mut self, step: PairJoin, twin_weight: u64) {
        let merged = key(step.left, step.right);
        let mut left = std::mem::take(&mut self.left);
        for &id in left.touched.iter().take(SETTLED_AHEAD) {
            self.prefetch_gain(key(id, step.token), left.weight_of(id));
        }
        for i in 0..left.touched.len() {
            if let Some(&ahead) = left.touched.get(i + SETTLED_AHEAD) {
                self.pairs.prefetch(key(ahead, step.left));
                self.prefetch_gain(key(ahead, step.token), left.weight_of(ahead));
            }
            let id = left.touched[i];
            let (weight, places) = left.take(id);
            self.lose(key(id, step.left), weight, merged);
            left.set_cursor(id, self.gain(id, step.token, weight, places, step.fresh));
        }
        left.scatter(&mut self.lists);
        self.left = left;

        let mut right = std::mem::take(&mut self.right);
        for &id in right.touched.iter().take(SETTLED_AHEAD) {
            self.prefetch_gain(key(step.token, id), right.weight_of(id));
        }
        for i in 0..right.touched.len() {
            if let Some(&ahead) = right.touched.get(i + SETTLED_AHEAD) {
                self.pairs.prefetch(key(step.right, ahead));
                self.prefetch_gain(key(step.token, ahead), right.weight_of(ahead));
            }
            let id = right.touched[i];
            let (weight, places) = right.take(id);
            self.lose(key(step.right, id), weight, merged);
            let undone = if id == step.left { twin_weight } else { 0 };
            right.set_cursor(id, self.gain(step.token, id, weight - undone, places, step.fresh));
        }
        right.scatter(&mut self.lists);
        self.right = right;
        self.settle_twins(step, twin_weight);
        self.lists.restore_order();
    }

    fn settle_twins(&mut self, step: PairJoin, weight: u64) {
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

    /// Asks for the slot of a pair that [`Merger::gain`] will put in the table. Most steps have few neighbours, all of
    /// them new: without this, and without asking for the old pairs in `join`, each would wait for its slot.
    #[inline(always)]
    fn prefetch_gain(&self, key: u64, weight: u64) {
        if weight >= self.follow {
            self.pairs.prefetch(key);
        }
    }

    /// Gives a pair `weight` and room for `places`; returns where the first of them goes, if the pair may merge.
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
            self.pairs.insert(Pair { key, count: weight, start, len: places });
            (weight, start)
        };
        self.queue.push(Candidate::new(count, key), &self.tokens);
        Some(start)
    }
}
