//! The pieces of one text, a batch of end offsets at a time.

use super::chain::{Chain, Cut};
use super::pieces::Pieces;
use super::{Engine, Scanner};
use crate::{Error, Result};

/// The pieces of one text, found a batch at a time.
pub struct Spans<'a> {
    scanner: &'a Scanner,
    text: &'a str,
    /// Used by the families.
    pieces: Pieces,
    /// All cuts of a chain, once the first batch has been requested.
    cuts: Option<Vec<Cut>>,
    /// Which cuts were in the last batch.
    batch: std::ops::Range<usize>,
}

impl<'a> Spans<'a> {
    pub(super) fn new(scanner: &'a Scanner, text: &'a str) -> Self {
        Self {
            scanner,
            text,
            pieces: Pieces::new(),
            cuts: None,
            batch: 0..0,
        }
    }

    /// Writes the ends (byte offsets in the text) of the next pieces and returns their number; 0 means the text is
    /// done. A piece starts where the one before it ends, so the ends tile the text; where a chain drops text,
    /// [`Spans::kept`] tells which stretches are not pieces.
    pub fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        if u32::try_from(self.text.len()).is_err() {
            return Err(Error::TextTooLong {
                bytes: self.text.len(),
            });
        }
        let (text, path) = (self.text.as_bytes(), self.scanner.path);
        match &self.scanner.engine {
            Engine::Known(known) => Ok(known.fill(path, &mut self.pieces, text, ends)),
            Engine::Chain(chain) => self.fill_from_chain(chain, ends),
        }
    }

    /// Same as [`Scanner::tiles`].
    pub fn tiles(&self) -> bool {
        self.scanner.tiles()
    }

    /// Whether stretch `i` of the last batch is a piece; always true if [`Scanner::tiles`].
    pub fn kept(&self, i: usize) -> bool {
        self.cuts
            .as_ref()
            .is_none_or(|cuts| cuts[self.batch.start + i].kept)
    }

    fn fill_from_chain(&mut self, chain: &Chain, ends: &mut [u32]) -> Result<usize> {
        let cuts = match &mut self.cuts {
            Some(cuts) => cuts,
            None => self.cuts.insert(chain.cuts(self.text)?),
        };
        let rest = &cuts[self.batch.end..];
        let count = rest.len().min(ends.len());
        for (end, cut) in ends.iter_mut().zip(rest) {
            *end = cut.end;
        }
        self.batch = self.batch.end..self.batch.end + count;
        Ok(count)
    }
}
