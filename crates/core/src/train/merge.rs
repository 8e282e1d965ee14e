//! Merging: the most frequent pair becomes a token, again and again, in time proportional to what changes.
//!
//! Every pair has its exact count and a list of the places where it occurs: `choose` picks the next one, `join`
//! does one step, `resume` continues from an earlier result.

use super::choose::candidates;
use super::history::History;
use super::lists::Lists;
use super::neighbours::Neighbours;
use super::options::MergeOptions;
use super::pairs::PairCounts;
use super::queue::Queue;
use super::tokens::TokenList;
use super::veto::Veto;
use super::words::Words;
use crate::{Error, Result, Stop};

/// There are many rarer pairs, and they are seldom merged; leaving them out halves the memory of the pairs.
const WORTH_FOLLOWING: u64 = 3;

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
        let tokens = TokenList::new(options.tokens.saturating_sub(256));
        let (mut pairs, lists) = super::lists::first_pairs(&words);
        if options.max_token_length < 2 {
            pairs = PairCounts::new(0);
        }
        let follow = options.min_frequency.max(WORTH_FOLLOWING);
        Self::start((words, pairs, lists), tokens, options, follow)
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
                None => return Ok(true),
            }
        }
        Ok(self.best().is_none())
    }

    /// The tokens so far; ids below 256 are the single bytes in Hugging Face's order.
    pub fn tokens(&self) -> &TokenList {
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

    /// What [`Merger::replay`] needs to restore this state.
    pub fn steps(&self) -> &[(u32, u32)] {
        &self.history.steps
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.words.memory() + self.pairs.memory() + self.lists.memory() + self.queue.memory()
    }
}
