//! The general path: HF's pre-tokenizer steps, each splitting the pieces of the one before it.

use super::automaton::Automaton;
use super::regex::Regex;
use super::spec::{Behavior, Pattern, Step};
use crate::{Error, Result};

/// A span of the text, and whether it is a piece or was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// End of the span; it starts where the one before it ends.
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
    Automaton(Box<Automaton>),
    Literal(String),
}

/// A span found by one step: its end and whether the step's pattern matched it.
type Found = (usize, bool);

impl Chain {
    /// Compiles every pattern of the chain: to an automaton where it has one, unless `general`.
    pub fn new(steps: &[Step], general: bool) -> Result<Self> {
        let made = |step| Splitter::new(step, general);
        let steps = steps.iter().map(made).collect::<Result<_>>()?;
        Ok(Self { steps })
    }

    /// Whether the regex engine matches one of the patterns.
    pub fn uses_regexes(&self) -> bool {
        let is_regex = |step: &Splitter| matches!(step.finder, Finder::Regex(_));
        self.steps.iter().any(is_regex)
    }

    /// Whether every byte of a text is in some piece.
    pub fn tiles(&self) -> bool {
        self.steps
            .iter()
            .all(|step| step.behavior != Behavior::Removed)
    }

    /// All spans of `text`, none of them empty.
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
    fn new(step: &Step, general: bool) -> Result<Self> {
        let (behavior, invert) = step.behavior();
        let finder = match (step, step.regex()) {
            (
                Step::Split {
                    pattern: Pattern::String(text),
                    ..
                },
                _,
            ) => Finder::Literal(text.clone()),
            (_, Some((regex, dialect))) if general => Finder::Regex(Regex::new(regex, dialect)?),
            (_, regex) => match (Automaton::of_matches(step), regex) {
                (Some(automaton), _) => Finder::Automaton(Box::new(automaton)),
                (None, Some((regex, dialect))) => Finder::Regex(Regex::new(regex, dialect)?),
                (None, None) => return Err(Error::Internal(format!("{step:?} has no automaton"))),
            },
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
            let bytes = &text.as_bytes()[start..end];
            if !cut.kept || self.leaves(bytes) {
                after.push(*cut);
            } else {
                found.clear();
                self.find(&text[start..end], &mut found)?;
                self.place(start, &found, &mut after);
            }
            start = end;
        }
        Ok(after)
    }

    /// Whether a span is certain to stay as it is.
    #[inline(always)]
    fn leaves(&self, text: &[u8]) -> bool {
        match &self.finder {
            Finder::Automaton(it) => self.behavior != Behavior::Removed && it.is_idle(text),
            _ => false,
        }
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
            Finder::Automaton(pattern) => pattern.for_each_match(text.as_bytes(), &mut visit),
            Finder::Literal(literal) => {
                text.match_indices(literal.as_str())
                    .for_each(|(at, m)| visit(at, at + m.len()));
            }
        }
        if previous < text.len() {
            found.push((text.len(), self.invert));
        }
        Ok(())
    }

    /// Applies the behavior to what was found in the span that starts at `base`.
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
