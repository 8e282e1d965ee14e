//! Where the encoder's pieces come from.

use crate::scan::Spans;
use crate::Result;

/// A source of pieces: the ends of the next ones, as byte offsets into the text, a batch at a time.
pub trait Pieces {
    /// Fills `ends` from its start and says how many were written; 0 means the text is done.
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize>;

    /// Returns whether some spans between ends may not be pieces.
    fn drops_text(&self) -> bool {
        false
    }

    /// Returns whether span `index` of the last batch is a piece.
    fn kept(&self, _index: usize) -> bool {
        true
    }
}

impl Pieces for Spans<'_> {
    #[inline]
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        Spans::fill(self, ends)
    }

    fn drops_text(&self) -> bool {
        !self.tiles()
    }

    fn kept(&self, index: usize) -> bool {
        Spans::kept(self, index)
    }
}

/// The ends of pieces that are known already.
impl Pieces for &[u32] {
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        let (now, later) = self.split_at(self.len().min(ends.len()));
        ends[..now.len()].copy_from_slice(now);
        *self = later;
        Ok(now.len())
    }
}
