//! The general path: HF's pre-tokenizer steps, each splitting the pieces of the one before it.

use super::classes::{char_at, HF_DIGIT, HF_PUNCTUATION, SPACES};
use super::gpt2;
use super::regex::Regex;
use super::spec::{Behavior, Dialect, Pattern, ScanSpec, Step};
use super::Scanner;
use crate::Result;

/// A stretch of the text, and whether it is a piece or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// End of the stretch; it starts where the one before it ends.
    pub end: u32,
    /// Whether it is a piece.
    pub kept: bool,
}

/// Compiled steps.
#[derive(Debug)]
pub struct Chain {
    steps: Vec<Splitter>,
}

#[derive(Debug)]
struct Splitter {
    finder: Finder,
    behavior: Behavior,
    invert: bool,
}

#[derive(Debug)]
enum Finder {
    Regex(Regex),
    /// A step that is itself a known family: faster, and no run of white space is too long for it.
    Known(Scanner),
    Literal(String),
    /// Each character whose property byte has one of these bits.
    Property(u8),
    Space,
}

/// A stretch found by one step: its end and whether the step's pattern matched it.
type Found = (usize, bool);

impl Chain {
    /// Compiles every pattern of the chain.
    pub fn new(steps: &[Step]) -> Result<Self> {
        // A single step stays a regex: it is what the families are compared with.
        let alone = steps.len() == 1;
        let made = |step| match Splitter::known(step)? {
            Some(known) if !alone => Ok(known),
            _ => Splitter::new(step),
        };
        let steps = steps.iter().map(made).collect::<Result<_>>()?;
        Ok(Self { steps })
    }

    /// Whether every byte of a text is in some piece.
    pub fn tiles(&self) -> bool {
        self.steps
            .iter()
            .all(|step| step.behavior != Behavior::Removed)
    }

    /// All stretches of `text`, none of them empty.
    pub fn cuts(&self, text: &str) -> Result<Vec<Cut>> {
        let mut cuts = Vec::new();
        if !text.is_empty() {
            cuts.push(Cut {
                end: text.len() as u32,
                kept: true,
            });
        }
        for step in &self.steps {
            cuts = step.split_all(text, &cuts)?;
        }
        Ok(cuts)
    }
}

impl Splitter {
    /// A step that is itself a known family.
    fn known(step: &Step) -> Result<Option<Self>> {
        let spec = ScanSpec::from_steps(vec![step.clone()]);
        if !spec.is_known() {
            return Ok(None);
        }
        Ok(Some(Self {
            finder: Finder::Known(Scanner::new(&spec)?),
            behavior: Behavior::Isolated,
            invert: false,
        }))
    }

    fn new(step: &Step) -> Result<Self> {
        use Behavior::{Contiguous, Isolated, Removed};
        let regex = |pattern: &str, dialect| Regex::new(pattern, dialect).map(Finder::Regex);
        let (finder, behavior, invert) = match step {
            Step::Split {
                pattern,
                dialect,
                behavior,
                invert,
            } => {
                let finder = match pattern {
                    Pattern::Regex(pattern) => regex(pattern, *dialect)?,
                    Pattern::String(text) => Finder::Literal(text.clone()),
                };
                (finder, *behavior, *invert)
            }
            Step::Digits { individual: true } => (Finder::Property(HF_DIGIT), Isolated, false),
            Step::Digits { individual: false } => (Finder::Property(HF_DIGIT), Contiguous, false),
            Step::Punctuation { behavior } => (Finder::Property(HF_PUNCTUATION), *behavior, false),
            Step::Whitespace {} => (regex(r"\w+|[^\w\s]+", Dialect::Rust)?, Removed, true),
            Step::WhitespaceSplit {} => (Finder::Space, Removed, false),
            Step::ByteLevel => (regex(&gpt2::regex(), Dialect::Rust)?, Isolated, false),
        };
        Ok(Self {
            finder,
            behavior,
            invert,
        })
    }

    fn split_all(&self, text: &str, before: &[Cut]) -> Result<Vec<Cut>> {
        let (mut after, mut found, mut start) = (Vec::with_capacity(before.len()), Vec::new(), 0);
        for cut in before {
            let end = cut.end as usize;
            if cut.kept {
                found.clear();
                self.find(&text[start..end], &mut found)?;
                self.place(start, &found, &mut after);
            } else {
                after.push(*cut);
            }
            start = end;
        }
        Ok(after)
    }

    /// Cuts `text` into matches and what lies between them; empty matches stay in the list, as
    /// they decide how their neighbours merge.
    fn find(&self, text: &str, found: &mut Vec<Found>) -> Result<()> {
        let mut previous = 0;
        let mut visit = |start: usize, end: usize| {
            if start > previous {
                found.push((start, self.invert));
            }
            found.push((end, !self.invert));
            previous = end;
        };
        match &self.finder {
            Finder::Regex(pattern) => pattern.for_each_match(text, &mut visit)?,
            Finder::Known(scanner) => {
                let mut at = 0;
                scanner.for_each_piece(text, |piece| {
                    visit(at, at + piece.len());
                    at += piece.len();
                })?;
            }
            Finder::Literal(literal) => {
                text.match_indices(literal.as_str())
                    .for_each(|(at, m)| visit(at, at + m.len()));
            }
            Finder::Property(bits) => for_each_char(text, |p| p & bits != 0, &mut visit),
            Finder::Space => for_each_char(text, |p| SPACES.has(p), &mut visit),
        }
        if previous < text.len() {
            found.push((text.len(), self.invert));
        }
        Ok(())
    }

    /// Applies the behavior to what was found in the stretch that starts at `base`.
    fn place(&self, base: usize, found: &[Found], cuts: &mut Vec<Cut>) {
        let mut start = 0;
        for (i, &(end, matched)) in found.iter().enumerate() {
            let joins = found
                .get(i + 1)
                .is_some_and(|next| self.behavior.joins(matched, next.1));
            if joins || end == start {
                continue;
            }
            let kept = !(matched && self.behavior == Behavior::Removed);
            cuts.push(Cut {
                end: (base + end) as u32,
                kept,
            });
            start = end;
        }
    }
}

impl Behavior {
    /// Whether two neighbours form one piece, given which of them matched.
    fn joins(self, left: bool, right: bool) -> bool {
        match self {
            Self::Isolated | Self::Removed => false,
            Self::Contiguous => left == right,
            Self::MergedWithPrevious => right && !left,
            Self::MergedWithNext => left && !right,
        }
    }
}

fn for_each_char(text: &str, accept: impl Fn(u8) -> bool, visit: &mut impl FnMut(usize, usize)) {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        let (properties, width) = char_at(bytes, at);
        if accept(properties) {
            visit(at, at + width);
        }
        at += width;
    }
}
