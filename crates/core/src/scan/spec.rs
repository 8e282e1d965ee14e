//! What to scan for: a family with its flags, or a chain of steps as HF `tokenizers` has them.

use super::known;

/// Flags of the gpt2 family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gpt2 {
    /// HF's `Digits(individual)` runs first: `StarCoder`, Command-R.
    pub digits: bool,
}

/// Flags of the cl100k family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cl100k {
    /// The longest run of numbers in one piece: 1 (Qwen) or 3.
    pub digits: u8,
    /// Marks join letters (Qwen-3.5) instead of punctuation.
    pub marks: bool,
    /// White space at the end of the text is one piece (`\s++$` of tiktoken's own pattern).
    pub tail: bool,
}

/// Flags of the o200k family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct O200k {
    /// A word takes a following `'s`, `'ll`… along.
    pub contractions: bool,
    /// The longest run of numbers in one piece: 1 (tekken) or 3.
    pub digits: u8,
    /// Punctuation takes following slashes along, like newlines.
    pub slash: bool,
    /// Han runs are pieces of their own (Kimi-K2).
    pub han: bool,
}

/// How the pieces of a text are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanSpec {
    /// GPT-2 and everything byte-level that HF trained by default.
    Gpt2(Gpt2),
    /// GPT-3.5/4, Llama-3, OLMo-2, Qwen.
    Cl100k(Cl100k),
    /// GPT-4o, Llama-4, tekken, Kimi-K2.
    O200k(O200k),
    /// DeepSeek-V3 and R1.
    DeepSeekV3,
    /// Any other pattern or chain, through the regex engine.
    Chain(Vec<Step>),
}

/// Whose regex syntax a pattern is written in; they differ in `$`, `^`, `{n,m}+`, `(?m)`…
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The Rust engine of tiktoken.
    Rust,
    /// Oniguruma's Ruby syntax, as HF `tokenizers` reads patterns.
    Oniguruma,
}

/// What becomes of a match (HF's `SplitDelimiterBehavior`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Dropped.
    Removed,
    /// A piece of its own.
    Isolated,
    /// Joined to the piece before it.
    MergedWithPrevious,
    /// Joined to the piece after it.
    MergedWithNext,
    /// Adjacent matches form one piece.
    Contiguous,
}

/// One step of a chain: it splits every piece that the step before it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Split at a regex.
    Split {
        /// The regex.
        pattern: String,
        /// Its syntax.
        dialect: Dialect,
        /// What becomes of a match.
        behavior: Behavior,
        /// Exchange matches and what lies between them.
        invert: bool,
    },
    /// Split at a literal string.
    Literal {
        /// The string; an empty one matches between all characters.
        text: String,
        /// What becomes of a match.
        behavior: Behavior,
        /// Exchange matches and what lies between them.
        invert: bool,
    },
    /// Split digits off, each by itself or in runs.
    Digits {
        /// Each digit is a piece.
        individual: bool,
    },
    /// Split at punctuation characters.
    Punctuation(Behavior),
    /// Words and runs of signs; white space is dropped.
    Whitespace,
    /// Split at white space and drop it.
    WhitespaceSplit,
    /// GPT-2's pattern (HF's `ByteLevel` with `use_regex`).
    ByteLevel,
}

impl ScanSpec {
    /// The spec of a pattern whose matches are the pieces (tiktoken, minbpe, rustbpe): what lies
    /// between matches is dropped. Known patterns get their hand-written scanner.
    pub fn from_pattern(pattern: &str) -> Self {
        known::recognise(pattern, Dialect::Rust).unwrap_or_else(|| {
            Self::Chain(vec![Step::Split {
                pattern: pattern.to_owned(),
                dialect: Dialect::Rust,
                behavior: Behavior::Removed,
                invert: true,
            }])
        })
    }

    /// The spec of a chain of HF steps; a chain that is one of the known ones gets its scanner.
    pub fn from_steps(steps: Vec<Step>) -> Self {
        known::recognise_steps(&steps).unwrap_or(Self::Chain(steps))
    }

    /// The spec of a family or model name, e.g. `"llama3"`; `None` for an unknown one.
    pub fn named(name: &str) -> Option<Self> {
        known::NAMED
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, spec)| spec.clone())
    }

    /// The names that [`ScanSpec::named`] takes.
    pub fn names() -> impl Iterator<Item = &'static str> {
        known::NAMED.iter().map(|(name, _)| *name)
    }

    /// The first known name of this spec, or `"chain"`.
    pub fn name(&self) -> &'static str {
        known::NAMED
            .iter()
            .find(|(_, spec)| spec == self)
            .map_or("chain", |(name, _)| name)
    }
}
