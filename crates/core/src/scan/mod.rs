//! Text -> pieces: the single scan that the encoder and the trainer share.
//!
//! A [`ScanSpec`] says which pattern to use; a [`Scanner`] is ready to run; [`Spans`] gives the ends of the pieces of
//! one text, a batch at a time. The known families are matched by hand-written code, any other pattern by a regex
//! engine, and both give exactly what the regex would.
//!
//! A family's pattern never looks behind, so what follows a piece depends only on where the next one
//! starts. That is why a text can be scanned from any piece start, window by window.

mod algebra;
mod block;
mod chain;
mod cl100k;
pub mod classes;
mod cuts;
mod deepseek;
mod gpt2;
mod known;
mod lanes;
mod o200k;
mod path;
mod patterns;
mod pieces;
mod regex;
mod runs;
mod spans;
mod spec;
mod window;

pub use cuts::SafeCuts;
pub use known::{names, Family, Known, FAMILIES};
pub use path::Path;
pub use spans::Spans;
pub use spec::{Behavior, Dialect, Pattern, ScanSpec, Step};

use std::sync::Arc;

use crate::cpu::Cpu;
use crate::Result;
use chain::Chain;

/// A compiled [`ScanSpec`]: immutable, shared by threads.
#[derive(Debug)]
pub struct Scanner {
    engine: Engine,
    path: Path,
}

#[derive(Debug)]
enum Engine {
    Known(Arc<dyn Known>),
    Chain(Chain),
}

impl Scanner {
    /// Compiles a spec; only a chain can fail, when a pattern does not compile.
    pub fn new(spec: &ScanSpec) -> Result<Self> {
        Self::with_path(spec, Path::Blocks(Cpu::get()))
    }

    /// Compiles a spec for one way of running it; all ways give the same pieces.
    pub fn with_path(spec: &ScanSpec, path: Path) -> Result<Self> {
        let engine = match spec {
            ScanSpec::Known(known) => Engine::Known(Arc::clone(known)),
            ScanSpec::Chain(steps) => Engine::Chain(Chain::new(steps)?),
        };
        Ok(Self { engine, path })
    }

    /// Whether every byte of every text is in some piece: true for all families, false for a chain that drops what it
    /// splits at.
    pub fn tiles(&self) -> bool {
        match &self.engine {
            Engine::Chain(chain) => chain.tiles(),
            Engine::Known(_) => true,
        }
    }

    /// Starts scanning a text, which must be shorter than 4 GiB.
    pub fn spans<'a>(&'a self, text: &'a str) -> Spans<'a> {
        Spans::new(self, text)
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
