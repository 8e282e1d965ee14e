//! Merging: the most frequent pair becomes a token, again and again, in time proportional to what changes.
//!
//! Every pair has its exact count and a list of the places where it occurs: `choose` picks the next one, `join`
//! does one step.

use super::choose::candidates;
use super::heap::TieBreak;
use super::history::History;
use super::lists::Lists;
use super::neighbours::Neighbours;
use super::pairs::{key, Pair, PairCounts};
use super::queue::Queue;
use super::tokens::TokenList;
use super::veto::Veto;
use super::words::Words;
use crate::{Error, Result, Stop};

/// There are many rarer pairs, and they are seldom merged; leaving them out halves the memory of the pairs.
const WORTH_FOLLOWING: u64 = 3;

/// When merging ends, and how ties are broken.
#[derive(Clone, Copy, Debug)]
pub struct MergeOptions {
    /// Stop at this many tokens, the 256 bytes among them.
    pub tokens: usize,
    /// Stop when the best pair occurs less often; at least 1.
    pub min_frequency: u64,
    /// No token may have more bytes.
    pub max_token_length: u32,
    /// Between equal counts.
    pub tie: TieBreak,
    /// Whether two splits of the same bytes make one token, as everywhere except in minbpe.
    pub unify: bool,
}

/// A training run between two steps.
pub struct Merger {
    pub(super) words: Words,
    pub(super) pairs: PairCounts,
    pub(super) lists: Lists,
    pub(super) tokens: TokenList,
    pub(super) queue: Queue,
    pub(super) left: Neighbours,
    pub(super) right: Neighbours,
    pub(super) twins: Vec<u32>,
    pub(super) options: MergeOptions,
    pub(super) follow: u64,
    pub(super) history: History,
    /// What continued training leaves out; None if every pair may merge.
    pub(super) veto: Option<Veto>,
}

impl Merger {
    /// Counts the pairs of `words` and orders them.
    pub fn new(words: Words, options: MergeOptions) -> Result<Self> {
        crate::pages::give_back();
        let tokens = TokenList::new(options.tokens.saturating_sub(256));
        let (mut pairs, lists) = super::lists::first_pairs(&words);
        if options.max_token_length < 2 {
            pairs = PairCounts::new(0);
        }
        let follow = options.min_frequency.max(WORTH_FOLLOWING);
        Self::start((words, pairs, lists), tokens, options, follow)
    }

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
        let absent = Pair { key: key(left, right), count: 0, start: 0, len: 0 };
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

    pub(super) fn start(
        (words, pairs, lists): (Words, PairCounts, Lists),
        tokens: TokenList,
        options: MergeOptions,
        follow: u64,
    ) -> Result<Self> {
        if options.tie.needs_places() && !words.in_order {
            return Err(Error::Input(
                "the tie rule first-seen needs the words in the order of the texts, which is known only \
                 when training starts from the texts"
                    .into(),
            ));
        }
        let ids = tokens.len().max(options.tokens);
        Ok(Self {
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
        })
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
                None => return Ok(self.retire()),
            }
        }
        Ok(self.best().is_none() && self.retire())
    }

    /// Frees what only further steps would need; always true.
    fn retire(&mut self) -> bool {
        self.options.tokens = self.tokens.len();
        self.words.cells = Vec::new();
        (self.pairs, self.lists) = (PairCounts::new(0), Lists::default());
        self.queue = Queue::new(std::iter::empty(), self.options.tie, &self.tokens);
        (self.left, self.right) = (Neighbours::default(), Neighbours::default());
        crate::pages::give_back();
        true
    }

    /// Returns the tokens so far; ids below 256 are the single bytes in Hugging Face's order.
    pub fn tokens(&self) -> &TokenList {
        &self.tokens
    }

    /// Returns the merges so far, as pairs of ids.
    pub fn merges(&self) -> &[(u32, u32)] {
        &self.history.merges
    }

    /// Returns the token that each merge makes.
    pub fn products(&self) -> &[u32] {
        &self.history.products
    }

    /// Returns the count each merge had when it was chosen.
    pub fn counts(&self) -> &[u64] {
        &self.history.counts
    }

    /// Returns what [`Merger::replay`] needs to restore this state.
    pub fn steps(&self) -> &[(u32, u32)] {
        &self.history.steps
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.words.memory() + self.pairs.memory() + self.lists.memory() + self.queue.memory()
    }
}
