//! What a training run has done so far.

use super::pairs::{split, Pair};
use super::tokens::TokenList;

/// What has been done, in order.
#[derive(Default)]
pub struct History {
    /// Every step, including those that apply a known merge again.
    pub steps: Vec<(u32, u32)>,
    /// The merges, each once.
    pub merges: Vec<(u32, u32)>,
    /// The token each merge makes.
    pub products: Vec<u32>,
    /// The count of each merge when it was chosen.
    pub counts: Vec<u64>,
    /// Merges that made an existing token; almost always empty.
    second_splits: Vec<u64>,
    /// The merge that first made each new token.
    first_split: Vec<u64>,
    /// How many tokens there were at the start.
    start: usize,
}

impl History {
    /// For a run that begins with `start` tokens.
    pub fn new(start: usize) -> Self {
        Self { start, ..Self::default() }
    }

    /// Returns whether one of the tokens of the start has these bytes.
    pub fn started_with(&self, tokens: &TokenList, bytes: &[u8]) -> bool {
        tokens.find(bytes).is_some_and(|id| (id as usize) < self.start)
    }

    /// A pair can come back after it was merged, when one of its tokens is made by a second split. It
    /// is then joined again, and the merge is not listed twice.
    pub fn record(&mut self, best: Pair, token: u32, fresh: bool) {
        self.steps.push(split(best.key));
        if fresh {
            self.first_split.push(best.key);
        } else {
            let first = self.first_split.get((token as usize).wrapping_sub(self.start));
            if first == Some(&best.key) || self.second_splits.contains(&best.key) {
                return;
            }
            self.second_splits.push(best.key);
        }
        self.merges.push(split(best.key));
        self.products.push(token);
        self.counts.push(best.count);
    }
}
