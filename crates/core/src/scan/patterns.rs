//! The spellings of the known patterns, and the chain of steps that each family stands for.
//!
//! The first spelling of each part is the canonical one: a spec becomes that pattern when it is
//! saved, and the scanners are tested against it.

use super::spec::{Behavior, Cl100k, Dialect, Gpt2, O200k, ScanSpec, Step};

/// Contractions in lower case.
pub const SHORT: &[&str] = &["'s|'t|'re|'ve|'m|'ll|'d", "'(?:[sdmt]|ll|ve|re)"];
/// Contractions in any case.
pub const SHORT_ANY_CASE: &[&str] = &["(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)"];
/// GPT-2's words, numbers and others.
pub const GPT2_WORDS: &[&str] = &[
    r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
    r" ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+",
    r" ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++",
];
/// GPT-2's white space.
pub const GPT2_BLANK: &[&str] = &[r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"\s++$|\s+(?!\S)|\s"];
/// cl100k's words.
pub const LETTERS: &[&str] = &[r"[^\r\n\p{L}\p{N}]?\p{L}+", r"[^\r\n\p{L}\p{N}]?+\p{L}++"];
/// cl100k's words where marks join letters.
pub const LETTERS_MARKS: &[&str] = &[r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"];
/// cl100k's punctuation.
pub const OTHERS: &[&str] = &[r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}]++[\r\n]*+"];
/// cl100k's punctuation where marks join letters.
pub const OTHERS_UNMARKED: &[&str] = &[
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r" ?[^\s\p{L}\p{N}\p{M}]+[\r\n]*",
];
/// White space up to the last newline, then the rest.
pub const LINES: &[&str] = &[r"\s*[\r\n]+|\s+(?!\S)|\s+", r"\s*[\r\n]+|\s+(?!\S)|\s"];
/// The same with all white space at the end of the text first.
pub const LINES_TAIL: &[&str] = &[
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"\s++$|\s*[\r\n]+|\s+(?!\S)|\s+",
];
/// o200k's punctuation.
pub const SLASHES: &[&str] = &[r" ?[^\s\p{L}\p{N}]+[\r\n/]*"];

/// o200k's words that end in lower case.
pub const WORD_ONE: &str =
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+";
/// o200k's words that begin in upper case.
pub const WORD_TWO: &str =
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*";
/// What Kimi-K2 puts in place of the `]` of o200k's letter classes.
pub const NOT_HAN: &str = r"&&[^\p{Han}]]";

/// DeepSeek-V3's three splits.
pub const DEEPSEEK: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
        r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
];

/// Kimi-K2's first alternative.
pub const HAN_RUN: &str = r"[\p{Han}]+";
/// o200k's contractions, which follow a word.
pub const AFTER_WORD: &str = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";

/// One of o200k's word alternatives, with contractions or without, Han taken out or not.
pub fn word(alternative: &str, contractions: bool, han: bool) -> String {
    let tail = if contractions { AFTER_WORD } else { "" };
    let marks = if han {
        [r"\p{M}", NOT_HAN].concat()
    } else {
        r"\p{M}]".to_owned()
    };
    [&alternative.replace(r"\p{M}]", &marks), tail].concat()
}

impl ScanSpec {
    /// The chain of steps that this spec stands for, with canonical patterns.
    pub fn steps(&self) -> Vec<Step> {
        match self {
            Self::Gpt2(Gpt2 { digits: false }) => vec![split(&gpt2())],
            Self::Gpt2(Gpt2 { digits: true }) => {
                vec![Step::Digits { individual: true }, split(&gpt2())]
            }
            Self::Cl100k(flags) => vec![split(&cl100k(*flags))],
            Self::O200k(flags) => vec![split(&o200k(*flags))],
            Self::DeepSeekV3 => DEEPSEEK.map(split).to_vec(),
            Self::Chain(steps) => steps.clone(),
        }
    }

    /// The one regular expression whose matches are the pieces, where there is one.
    pub fn pattern(&self) -> Option<String> {
        match self.steps().as_slice() {
            [Step::Split {
                pattern,
                behavior,
                invert,
                ..
            }] => {
                let finds_pieces = match behavior {
                    Behavior::Isolated => !invert,
                    Behavior::Removed => *invert,
                    _ => false,
                };
                finds_pieces.then(|| pattern.clone())
            }
            _ => None,
        }
    }
}

fn split(pattern: &str) -> Step {
    Step::Split {
        pattern: pattern.to_owned(),
        dialect: Dialect::Rust,
        behavior: Behavior::Isolated,
        invert: false,
    }
}

fn gpt2() -> String {
    [SHORT[0], GPT2_WORDS[0], GPT2_BLANK[0]].join("|")
}

fn digits(limit: u8) -> &'static str {
    if limit == 1 {
        r"\p{N}"
    } else {
        r"\p{N}{1,3}"
    }
}

fn cl100k(flags: Cl100k) -> String {
    let (letters, others) = if flags.marks {
        (LETTERS_MARKS, OTHERS_UNMARKED)
    } else {
        (LETTERS, OTHERS)
    };
    let lines = if flags.tail { LINES_TAIL } else { LINES };
    [
        SHORT_ANY_CASE[0],
        letters[0],
        digits(flags.digits),
        others[0],
        lines[0],
    ]
    .join("|")
}

fn o200k(flags: O200k) -> String {
    let words = [WORD_ONE, WORD_TWO]
        .map(|one| word(one, flags.contractions, flags.han))
        .join("|");
    let others = if flags.slash { SLASHES[0] } else { OTHERS[0] };
    let pattern = [&words, digits(flags.digits), others, LINES[0]].join("|");
    if flags.han {
        [HAN_RUN, &pattern].join("|")
    } else {
        pattern
    }
}
