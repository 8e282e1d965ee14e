//! What to scan for: a pattern of a known family, or a chain of steps as in HF `tokenizers`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::classes::{properties, HF_DIGIT, HF_PUNCTUATION};
use super::known::{self, Known};
use super::nfa::first_set;
use super::regex::parse;
use crate::{Error, Result};

/// The name of a spec that is not a family.
const CHAIN: &str = "chain";

/// How the pieces of a text are found.
#[derive(Clone, Debug)]
pub enum ScanSpec {
    /// By the block scanner of a family.
    Known(Known),
    /// Any other pattern or chain, by automata where the patterns have them.
    Chain(Vec<Step>),
}

/// The regex syntax that a pattern is written in; dialects differ in `$`, `^`, `{n,m}+`, `(?m)`…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// The Rust engine of tiktoken.
    Rust,
    /// Oniguruma's Ruby syntax, as HF `tokenizers` reads patterns.
    #[default]
    Oniguruma,
}

/// What happens to a match (HF's `SplitDelimiterBehavior`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behavior {
    /// Dropped.
    Removed,
    /// A piece of its own.
    #[default]
    Isolated,
    /// Joined to the piece before it.
    MergedWithPrevious,
    /// Joined to the piece after it.
    MergedWithNext,
    /// Adjacent matches form one piece.
    Contiguous,
}

/// What a [`Step::Split`] looks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pattern {
    /// A regular expression.
    Regex(String),
    /// A literal string; an empty one matches between all characters.
    String(String),
}

/// One step of a chain: it splits every piece that the previous step left. Read and written as in a `tokenizer.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Step {
    /// Split at a pattern.
    Split {
        /// The pattern.
        pattern: Pattern,
        /// What happens to a match.
        behavior: Behavior,
        /// Swap matches and what lies between them.
        #[serde(default)]
        invert: bool,
        /// The syntax of a regex. Not part of HF's format: HF reads every regex as Oniguruma would.
        #[serde(default, skip_serializing_if = "is_default")]
        dialect: Dialect,
    },
    /// Split digits off, each by itself or in runs.
    Digits {
        /// Each digit is a piece.
        #[serde(default, rename = "individual_digits")]
        individual: bool,
    },
    /// Split at punctuation characters.
    Punctuation {
        /// What happens to them.
        #[serde(default)]
        behavior: Behavior,
    },
    /// Words and runs of signs are pieces; white space is dropped.
    Whitespace {},
    /// Split at white space and drop it.
    WhitespaceSplit {},
    /// GPT-2's pattern. In HF it is a flag of the step that spells bytes, so it is not a step of its own there.
    #[serde(skip)]
    ByteLevel,
}

/// The regex of the characters with a property, or of runs of them: no name of a class means the same.
fn class(bit: u8, runs: bool) -> String {
    let chars = ('\0'..=char::MAX).filter(|&c| properties(c as u32) & bit != 0);
    let chars: String = chars.flat_map(char::escape_unicode).collect();
    format!("[{chars}]{}", if runs { "+" } else { "" })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Step {
    /// A split in which both the matches and what lies between them are pieces.
    pub fn isolate(regex: impl Into<String>) -> Self {
        Self::Split {
            pattern: Pattern::Regex(regex.into()),
            behavior: Behavior::Isolated,
            invert: false,
            dialect: Dialect::Oniguruma,
        }
    }

    /// A split whose matches are the pieces; what lies between them is dropped.
    pub fn matches(regex: impl Into<String>) -> Self {
        Self::Split {
            pattern: Pattern::Regex(regex.into()),
            behavior: Behavior::Removed,
            invert: true,
            dialect: Dialect::Rust,
        }
    }

    /// The regex whose matches the step looks for, and its dialect. Adjacent characters of a class that are joined are
    /// one match.
    pub(super) fn regex(&self) -> (Cow<'_, str>, Dialect) {
        let (joined, _) = self.behavior();
        let class = |bit| class(bit, joined == Behavior::Contiguous).into();
        let regex = match self {
            Self::Split { pattern: Pattern::Regex(regex), dialect, .. } => {
                return (regex.into(), *dialect)
            }
            Self::Split { pattern: Pattern::String(text), .. } => regex_syntax::escape(text).into(),
            Self::Digits { .. } => class(HF_DIGIT),
            Self::Punctuation { .. } => class(HF_PUNCTUATION),
            Self::ByteLevel => super::gpt2::REGEX.into(),
            Self::Whitespace {} => r"\w+|[^\w\s]+".into(),
            Self::WhitespaceSplit {} => r"\s".into(),
        };
        (regex, Dialect::Rust)
    }

    /// What happens to matches, and whether they are swapped with what lies between them.
    pub(super) fn behavior(&self) -> (Behavior, bool) {
        match self {
            Self::Split { behavior, invert, .. } => (*behavior, *invert),
            Self::Punctuation { behavior } => (*behavior, false),
            Self::Digits { individual: false } => (Behavior::Contiguous, false),
            Self::Digits { .. } | Self::ByteLevel => (Behavior::Isolated, false),
            Self::Whitespace {} => (Behavior::Removed, true),
            Self::WhitespaceSplit {} => (Behavior::Removed, false),
        }
    }
}

impl ScanSpec {
    /// The spec of a pattern whose matches are the pieces (tiktoken, minbpe, rustbpe): what lies
    /// between matches is dropped.
    pub fn from_regex(regex: &str) -> Self {
        Self::from_steps(vec![Step::matches(regex)])
    }

    /// The spec of a chain of HF steps; one that is equal to a family gets its block scanner.
    pub fn from_steps(steps: Vec<Step>) -> Self {
        Known::of_steps(&steps).map_or(Self::Chain(steps), Self::Known)
    }

    /// The spec for a family's name, e.g. `"llama3"`, or for a regex. Anything that looks like a name but is not one
    /// is refused: as a regex it would match next to nothing.
    pub fn from_choice(choice: &str) -> Result<Self> {
        if let Some(family) = known::family(choice) {
            return Ok(Self::Known(family.known));
        }
        let is_bare = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if choice.chars().all(is_bare) {
            return Err(Error::UnknownFamily {
                name: choice.to_owned(),
                nearest: known::nearest(choice),
                known: known::names().collect::<Vec<_>>().join(", "),
            });
        }
        Ok(Self::from_regex(choice))
    }

    /// The chain of steps that this spec means, with canonical patterns.
    pub fn steps(&self) -> Vec<Step> {
        match self {
            Self::Known(known) => known.steps(),
            Self::Chain(steps) => steps.clone(),
        }
    }

    /// For each character, whether text that has it may be cut or dropped; text without any such character is one piece.
    pub fn may_cut(&self, chars: &[char]) -> Vec<bool> {
        let mut may_cut = vec![false; chars.len()];
        for step in self.steps() {
            let ((regex, dialect), (behavior, _)) = (step.regex(), step.behavior());
            let first = parse(&regex, dialect).and_then(|expr| first_set(&expr));
            let first = first.filter(|first| !first.edge && behavior != Behavior::Removed);
            for (may_cut, c) in may_cut.iter_mut().zip(chars) {
                *may_cut |= first.as_ref().is_none_or(|first| first.has(*c));
            }
        }
        may_cut
    }

    /// The single regular expression whose matches are the pieces, in tiktoken's dialect, if there is one.
    pub fn regex(&self) -> Option<String> {
        let steps = self.steps();
        let [step] = steps.as_slice() else {
            return None;
        };
        let regex = step.regex().0.into_owned();
        let is_one = matches!(self, Self::Known(_)) || *step == Step::matches(&*regex);
        is_one.then_some(regex)
    }

    /// The argument for which [`ScanSpec::from_choice`] returns this spec, if there is one.
    pub fn choice(&self) -> Option<String> {
        match self.name() {
            CHAIN => self.regex(),
            name => Some(name.to_owned()),
        }
    }

    /// The name of its family, or `"chain"`.
    pub fn name(&self) -> &'static str {
        let Self::Known(known) = self else {
            return CHAIN;
        };
        let family = known::FAMILIES.iter().find(|row| row.known == *known);
        family.map_or(CHAIN, |family| family.name)
    }
}
