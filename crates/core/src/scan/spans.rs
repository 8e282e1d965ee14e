//! The pieces of one text, a batch of end offsets at a time.

use super::chain::{Chain, Cut};
use super::path::Path;
use super::window::{Family, Starts, BLOCKS};
use super::{Engine, Scanner};
use crate::{Error, Result};

/// The pieces of one text, found a batch at a time.
pub struct Spans<'a> {
    scanner: &'a Scanner,
    text: &'a str,
    /// Used by the families.
    pieces: Pieces,
    /// All cuts of a chain, once the first batch was asked for.
    cuts: Option<Vec<Cut>>,
    /// Which cuts the last batch held.
    batch: std::ops::Range<usize>,
}

/// Ends that were found but not given yet, and where the search goes on.
struct Pieces {
    starts: Starts,
    /// Start of the window.
    base: usize,
    /// The block of the window that is read next, with what is left of its bits.
    block: usize,
    bits: u64,
    /// The last end given: all that comes before it is done.
    at: usize,
    /// End of the window, as far as its pieces are sure.
    sure: usize,
    /// Pieces before this place are matched one by one.
    plain: usize,
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

    /// Writes the ends (byte offsets in the text) of the next pieces and gives their number; 0 means
    /// the text is done. A piece starts where the one before it ends, so the ends tile the text;
    /// where a chain drops text, [`Spans::kept`] tells which stretches are no pieces.
    pub fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        if u32::try_from(self.text.len()).is_err() {
            return Err(Error::TextTooLong {
                bytes: self.text.len(),
            });
        }
        let (text, path) = (self.text.as_bytes(), self.scanner.path);
        match &self.scanner.engine {
            Engine::Gpt2(family) => Ok(self.pieces.fill(*family, path, text, ends)),
            Engine::Cl100k(family) => Ok(self.pieces.fill(*family, path, text, ends)),
            Engine::O200k(family) => Ok(self.pieces.fill(*family, path, text, ends)),
            Engine::DeepSeekV3(family) => Ok(self.pieces.fill(*family, path, text, ends)),
            Engine::Chain(chain) => self.fill_from_chain(chain, ends),
        }
    }

    /// As [`Scanner::tiles`].
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

impl Pieces {
    fn new() -> Self {
        Self {
            starts: Starts::NONE,
            base: 0,
            block: 0,
            bits: 0,
            at: 0,
            sure: 0,
            plain: 0,
        }
    }

    #[inline(always)]
    fn fill<F: Family>(&mut self, family: F, path: Path, text: &[u8], ends: &mut [u32]) -> usize {
        let mut count = 0;
        while count < ends.len() {
            if self.at < self.sure {
                count += self.take(&mut ends[count..]);
            } else if self.at < self.plain {
                self.at = family.piece_end(text, self.at);
                ends[count] = self.at as u32;
                count += 1;
            } else if self.at < text.len() {
                self.find(family, path, text);
            } else {
                break;
            }
        }
        count
    }

    /// Scans the next window. One without a sure end, in the middle of a very long piece or of text
    /// without letters, is matched piece by piece.
    #[inline(always)]
    fn find<F: Family>(&mut self, family: F, path: Path, text: &[u8]) {
        self.base = self.at;
        self.sure = self.at + path.window(family, text, self.at, &mut self.starts);
        if self.sure == self.at {
            let rest = if path == Path::Plain {
                usize::MAX
            } else {
                BLOCKS * 64
            };
            self.plain = self.at.saturating_add(rest).min(text.len());
        }
        self.block = 0;
        self.bits = self.starts.word(0);
    }

    /// Moves ends from the window's bits to `ends`, until either is used up.
    #[inline(always)]
    fn take(&mut self, ends: &mut [u32]) -> usize {
        let (mut count, last) = (0, (self.sure - self.base) / 64);
        loop {
            let base = (self.base + self.block * 64) as u32;
            while self.bits != 0 && count < ends.len() {
                ends[count] = base + self.bits.trailing_zeros();
                count += 1;
                self.bits &= self.bits - 1;
            }
            if self.bits != 0 || self.block == last {
                break;
            }
            self.block += 1;
            self.bits = self.starts.word(self.block);
        }
        if let Some(end) = count.checked_sub(1) {
            self.at = ends[end] as usize;
        }
        count
    }
}
