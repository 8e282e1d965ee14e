//! Text -> pieces: the one scan that the encoder and the trainer share.
//!
//! A [`ScanSpec`] says which pattern; a [`Scanner`] is ready to run; [`Spans`] gives the ends of the
//! pieces of one text, a batch at a time. The known families are matched by hand-written code, any
//! other pattern by a regex engine, and both give exactly what the regex would.
//!
//! A family's pattern never looks behind, so what follows a piece depends only on where the next one
//! starts. That is why a text can be scanned from any piece start, window by window.

mod chain;
mod cl100k;
pub mod classes;
mod deepseek;
mod gpt2;
mod known;
mod o200k;
mod patterns;
mod regex;
mod runs;
mod spec;

pub use spec::{Behavior, Cl100k, Dialect, Gpt2, O200k, ScanSpec, Step};

use crate::{Error, Result};
use chain::{Chain, Cut};

/// A compiled [`ScanSpec`]: immutable, shared by threads.
#[derive(Debug)]
pub struct Scanner {
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Gpt2(Gpt2),
    Cl100k(Cl100k),
    O200k(O200k),
    DeepSeekV3,
    Chain(Chain),
}

impl Scanner {
    /// Compiles a spec; only a chain can fail, when a pattern does not compile.
    pub fn new(spec: &ScanSpec) -> Result<Self> {
        let engine = match spec {
            ScanSpec::Gpt2(flags) => Engine::Gpt2(*flags),
            ScanSpec::Cl100k(flags) => Engine::Cl100k(*flags),
            ScanSpec::O200k(flags) => Engine::O200k(*flags),
            ScanSpec::DeepSeekV3 => Engine::DeepSeekV3,
            ScanSpec::Chain(steps) => Engine::Chain(Chain::new(steps)?),
        };
        Ok(Self { engine })
    }

    /// Whether every byte of every text is in some piece: true of all families, false of a chain
    /// that drops what it splits at.
    pub fn tiles(&self) -> bool {
        match &self.engine {
            Engine::Chain(chain) => chain.tiles(),
            _ => true,
        }
    }

    /// Starts to scan a text, which must be shorter than 4 GiB.
    pub fn spans<'a>(&'a self, text: &'a str) -> Spans<'a> {
        Spans {
            scanner: self,
            text,
            at: 0,
            cuts: None,
            batch: 0..0,
        }
    }

    /// Calls `visit` with each piece of `text`, from left to right.
    pub fn for_each_piece<'t>(&self, text: &'t str, mut visit: impl FnMut(&'t [u8])) -> Result<()> {
        let mut spans = self.spans(text);
        let (mut ends, mut start) = ([0; 256], 0);
        loop {
            let count = spans.fill(&mut ends)?;
            if count == 0 {
                return Ok(());
            }
            for (i, &end) in ends[..count].iter().enumerate() {
                if spans.kept(i) {
                    visit(&text.as_bytes()[start..end as usize]);
                }
                start = end as usize;
            }
        }
    }
}

/// The pieces of one text, found a batch at a time.
pub struct Spans<'a> {
    scanner: &'a Scanner,
    text: &'a str,
    at: usize,
    /// All cuts of a chain, once the first batch was asked for.
    cuts: Option<Vec<Cut>>,
    /// Which cuts the last batch held.
    batch: std::ops::Range<usize>,
}

impl Spans<'_> {
    /// Writes the ends (byte offsets in the text) of the next pieces and gives their number; 0 means
    /// the text is done. A piece starts where the one before it ends, so the ends tile the text;
    /// where a chain drops text, [`Spans::kept`] tells which stretches are no pieces.
    pub fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        if u32::try_from(self.text.len()).is_err() {
            return Err(Error::TextTooLong {
                bytes: self.text.len(),
            });
        }
        let text = self.text.as_bytes();
        match &self.scanner.engine {
            Engine::Gpt2(flags) => Ok(self.fill_with(ends, |at| gpt2::piece_end(*flags, text, at))),
            Engine::Cl100k(flags) => {
                Ok(self.fill_with(ends, |at| cl100k::piece_end(*flags, text, at)))
            }
            Engine::O200k(flags) => {
                Ok(self.fill_with(ends, |at| o200k::piece_end(*flags, text, at)))
            }
            Engine::DeepSeekV3 => Ok(self.fill_with(ends, |at| deepseek::piece_end(text, at))),
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

    #[inline(always)]
    fn fill_with(&mut self, ends: &mut [u32], piece_end: impl Fn(usize) -> usize) -> usize {
        let mut count = 0;
        while count < ends.len() && self.at < self.text.len() {
            self.at = piece_end(self.at);
            ends[count] = self.at as u32;
            count += 1;
        }
        count
    }

    fn fill_from_chain(&mut self, chain: &Chain, ends: &mut [u32]) -> Result<usize> {
        let cuts = match self.cuts.take() {
            Some(cuts) => cuts,
            None => chain.cuts(self.text)?,
        };
        let rest = &cuts[self.batch.end..];
        let count = rest.len().min(ends.len());
        for (end, cut) in ends.iter_mut().zip(rest) {
            *end = cut.end;
        }
        self.batch = self.batch.end..self.batch.end + count;
        self.cuts = Some(cuts);
        Ok(count)
    }
}
