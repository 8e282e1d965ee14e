//! Continues training: from a vocabulary, from merges that must come first, from an earlier run.

use super::merge::Merger;
use super::options::MergeOptions;
use super::pairs::{key, Pair};
use super::tokens::TokenList;
use super::veto::Veto;
use super::words::Words;
use crate::{Error, Result, Stop};

impl Merger {
    /// Continues from a vocabulary: `words` are made of its `tokens`, and new ones come after them.
    pub fn from_vocabulary(
        words: Words,
        tokens: TokenList,
        options: MergeOptions,
        veto: Veto,
    ) -> Result<Self> {
        let (pairs, lists) = super::recount::all_pairs(&words, &tokens, options.max_token_length);
        let mut merger = Self::start((words, pairs, lists), tokens, options, 1)?;
        merger.veto = Some(veto);
        Ok(merger)
    }

    /// Makes `(left, right)` the next merge, whatever its count; returns the new token.
    pub fn require(&mut self, left: u32, right: u32) -> Result<u32> {
        let known = self.tokens.len() as u32;
        if left >= known || right >= known || self.tokens.len() >= self.options.tokens {
            return Err(Error::Input(format!(
                "the required merge ({left}, {right}) names a token that does not exist yet, or the \
                 vocabulary is full"
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

    /// Repeats the steps of an earlier run, without choosing them.
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
                        "merge {} of the checkpoint does not follow from these counts: it belongs to another run",
                        self.history.steps.len()
                    )))
                }
            }
        }
        Ok(())
    }
}
