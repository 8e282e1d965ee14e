//! Text -> pieces: the single scan that the encoder and the trainer share.
//!
//! A [`ScanSpec`] says which pattern to use; a [`Scanner`] is ready to run; [`Spans`] gives the ends of the pieces of
//! one text, a batch at a time. The known families are matched in blocks of 64 bytes, any other pattern by a
//! deterministic automaton, and what has no automaton by a regex engine. All give exactly what the regex would.
//!
//! A family's pattern never looks behind, so what follows a piece depends only on where the next one
//! starts. That is why a text can be scanned from any piece start, window by window.

mod algebra;
mod alphabet;
mod automaton;
mod block;
mod chain;
mod cl100k;
pub mod classes;
mod cuts;
mod deepseek;
mod dfa;
mod gpt2;
mod known;
mod lanes;
mod nfa;
mod o200k;
mod path;
mod pieces;
mod regex;
mod spans;
mod spec;
mod window;

pub use cuts::SafeCuts;
pub use known::{names, Family, Known, FAMILIES};
pub use path::Path;
pub use spans::Spans;
pub use spec::{Behavior, Dialect, Pattern, ScanSpec, Step};

use crate::cpu::Cpu;
use crate::{Error, Result};
use automaton::Automaton;
use chain::Chain;

/// A compiled [`ScanSpec`]: immutable, shared by threads.
#[derive(Debug)]
pub struct Scanner {
    engine: Engine,
    path: Path,
}

#[derive(Debug)]
enum Engine {
    Known(Known, Automaton),
    Automaton(Automaton),
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
            _ if path == Path::Regex => Engine::Chain(Chain::new(&spec.steps())?),
            ScanSpec::Known(known) => {
                let plain = Automaton::of_pieces(&known.steps());
                let missing = || Error::Internal(format!("{known:?} has no automaton"));
                Engine::Known(*known, plain.ok_or_else(missing)?)
            }
            ScanSpec::Chain(steps) => match Automaton::of_pieces(steps) {
                Some(automaton) => Engine::Automaton(automaton),
                None => Engine::Chain(Chain::new(steps)?),
            },
        };
        Ok(Self { engine, path })
    }

    /// Whether every byte of every text is in some piece: false for a chain that drops what it splits at.
    pub fn tiles(&self) -> bool {
        match &self.engine {
            Engine::Chain(chain) => chain.tiles(),
            Engine::Automaton(automaton) => automaton.tiles,
            Engine::Known(..) => true,
        }
    }

    /// What finds the pieces: `"blocks"`, `"automaton"` or, for a chain that has none, `"regex"`.
    pub fn kind(&self) -> &'static str {
        match &self.engine {
            Engine::Known(..) => "blocks",
            Engine::Automaton(_) => "automaton",
            Engine::Chain(_) => "regex",
        }
    }

    /// A character of each class that the patterns distinguish, if it is a single one: for tests.
    pub fn samples(&self) -> Vec<char> {
        match &self.engine {
            Engine::Known(_, automaton) | Engine::Automaton(automaton) => automaton.samples(),
            Engine::Chain(_) => Vec::new(),
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
