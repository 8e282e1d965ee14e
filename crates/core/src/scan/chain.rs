//! The general path: HF's pre-tokenizer steps by the regex engine, each splitting the pieces of the one before it.

use super::alphabet::Alphabet;
use super::nfa::first_set;
use super::regex::{parse, Regex};
use super::spec::{Behavior, Step};
use crate::Result;

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
    regex: Regex,
    /// Characters of which text with a match has one, if known.
    first: Option<Alphabet>,
    behavior: Behavior,
    invert: bool,
}

/// A span found by one step: its end and whether the step's pattern matched it.
type Found = (usize, bool);

impl Chain {
    /// Compiles every pattern of the chain.
    pub fn new(steps: &[Step]) -> Result<Self> {
        let steps = steps.iter().map(Splitter::new).collect::<Result<_>>()?;
        Ok(Self { steps })
    }

    /// Whether every byte of a text is in some piece.
    pub fn tiles(&self) -> bool {
        self.steps.iter().all(|step| step.behavior != Behavior::Removed)
    }

    /// All spans of `text`, none of them empty.
    pub fn cuts(&self, text: &str) -> Result<Vec<Cut>> {
        let mut cuts = Vec::new();
        if !text.is_empty() {
            cuts.push(Cut { end: text.len() as u32, kept: true });
        }
        for step in &self.steps {
            cuts = step.split_all(text, &cuts)?;
        }
        Ok(cuts)
    }
}

impl Splitter {
    fn new(step: &Step) -> Result<Self> {
        let ((regex, dialect), (behavior, invert)) = (step.regex(), step.behavior());
        Ok(Self {
            regex: Regex::new(&regex, dialect)?,
            first: parse(&regex, dialect)
                .and_then(|expr| first_set(&expr))
                .and_then(|set| Alphabet::new(&[set])),
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
        let may_match = self.first.as_ref().is_none_or(|first| {
            let mut chars = text.chars();
            chars.any(|c| first.sets[first.class(c as u32)] != 0)
        });
        if !may_match {
            found.push((text.len(), self.invert));
            return Ok(());
        }
        self.regex.for_each_match(text, |start, end| {
            if start > previous {
                found.push((start, self.invert));
            }
            found.push((end, !self.invert));
            previous = end;
        })?;
        if previous < text.len() {
            found.push((text.len(), self.invert));
        }
        Ok(())
    }

    /// Applies the behavior to what was found in the span that starts at `base`.
    fn place(&self, base: usize, found: &[Found], cuts: &mut Vec<Cut>) {
        let mut start = 0;
        for (i, &(end, matched)) in found.iter().enumerate() {
            let joins = found.get(i + 1).is_some_and(|next| self.behavior.joins(matched, next.1));
            if joins || end == start {
                continue;
            }
            let kept = !(matched && self.behavior == Behavior::Removed);
            cuts.push(Cut { end: (base + end) as u32, kept });
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
