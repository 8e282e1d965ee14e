//! The pieces of one text, a batch of end offsets at a time.

use super::chain::{Chain, Cut};
use super::known::Known;
use super::path::Path;
use super::pieces::Pieces;
use super::{Engine, Scanner};
use crate::{Error, Result};

/// The pieces of one text, found a batch at a time.
pub struct Spans<'a> {
    tiles: bool,
    text: &'a str,
    source: Source<'a>,
    /// Which cuts of a chain were in the last batch.
    batch: std::ops::Range<usize>,
    /// The pieces of the last batch that an automaton drops; empty if it tiles the text.
    dropped: Vec<bool>,
}

// On the stack: a box would be an allocation per text.
#[allow(clippy::large_enum_variant)]
enum Source<'a> {
    /// A family's scanner, or an automaton.
    Pieces(Option<(Known, Path)>, Pieces<'a>),
    /// A chain, and all its cuts once the first batch has been requested.
    Chain(&'a Chain, Option<Vec<Cut>>),
}

impl<'a> Spans<'a> {
    pub(super) fn new(scanner: &'a Scanner, text: &'a str) -> Self {
        let pieces = |plain| Pieces::new(plain, text.as_bytes());
        let source = match &scanner.engine {
            Engine::Known(known, plain) => {
                Source::Pieces(Some((*known, scanner.path)), pieces(plain))
            }
            Engine::Automaton(automaton) => Source::Pieces(None, pieces(automaton)),
            Engine::Chain(chain) => Source::Chain(chain, None),
        };
        Self { tiles: scanner.tiles(), text, source, batch: 0..0, dropped: Vec::new() }
    }

    /// Writes the ends (byte offsets in the text) of the next pieces and returns their number; 0 means the text is
    /// done. A piece starts where the one before it ends, so the ends tile the text; where a chain drops text,
    /// [`Spans::kept`] marks the spans that are not pieces.
    pub fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        if u32::try_from(self.text.len()).is_err() {
            return Err(Error::TextTooLong { bytes: self.text.len() });
        }
        let (chain, cuts) = match &mut self.source {
            Source::Pieces(Some((known, path)), pieces) => {
                return Ok(known.fill(*path, pieces, ends));
            }
            Source::Pieces(None, pieces) if self.tiles => {
                return Ok(pieces.fill_plain(ends, |_, _| {}));
            }
            Source::Pieces(None, pieces) => {
                let dropped = &mut self.dropped;
                dropped.resize(ends.len(), false);
                return Ok(pieces.fill_plain(ends, |i, drops| dropped[i] = drops));
            }
            Source::Chain(chain, cuts) => (chain, cuts),
        };
        let cuts = match cuts {
            Some(cuts) => cuts,
            None => cuts.insert(chain.cuts(self.text)?),
        };
        let rest = &cuts[self.batch.end..];
        let count = rest.len().min(ends.len());
        for (end, cut) in ends.iter_mut().zip(rest) {
            *end = cut.end;
        }
        self.batch = self.batch.end..self.batch.end + count;
        Ok(count)
    }

    /// Same as [`Scanner::tiles`].
    pub fn tiles(&self) -> bool {
        self.tiles
    }

    /// Whether span `i` of the last batch is a piece; always true if [`Scanner::tiles`].
    pub fn kept(&self, i: usize) -> bool {
        match &self.source {
            Source::Chain(_, Some(cuts)) => cuts[self.batch.start + i].kept,
            _ => !self.dropped.get(i).is_some_and(|&dropped| dropped),
        }
    }
}
