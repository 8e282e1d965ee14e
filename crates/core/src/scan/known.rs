//! The patterns that have a hand-written scanner: their names, and how to recognise their strings.
//!
//! A published pattern comes in several spellings that match alike. Each top-level alternative is
//! looked up among its known spellings; anything unexpected means "not known", never "nearly".

use super::patterns::{
    word, DEEPSEEK, GPT2_BLANK, GPT2_WORDS, HAN_RUN, LETTERS, LETTERS_MARKS, LINES, LINES_TAIL,
    OTHERS, OTHERS_UNMARKED, SHORT, SHORT_ANY_CASE, SLASHES, WORD_ONE, WORD_TWO,
};
use super::spec::{Behavior, Cl100k, Dialect, Gpt2, O200k, ScanSpec, Step};

const CL100K: Cl100k = Cl100k {
    digits: 3,
    marks: false,
    tail: false,
};
const O200K: O200k = O200k {
    contractions: true,
    digits: 3,
    slash: true,
    han: false,
};
const QWEN2: Cl100k = Cl100k {
    digits: 1,
    ..CL100K
};

/// Names for flag sets, the family's own name first.
pub const NAMED: &[(&str, ScanSpec)] = &[
    ("gpt2", ScanSpec::Gpt2(Gpt2 { digits: false })),
    ("starcoder", ScanSpec::Gpt2(Gpt2 { digits: true })),
    ("cl100k", ScanSpec::Cl100k(CL100K)),
    (
        "cl100k-tiktoken",
        ScanSpec::Cl100k(Cl100k {
            tail: true,
            ..CL100K
        }),
    ),
    ("qwen2", ScanSpec::Cl100k(QWEN2)),
    (
        "qwen3.5",
        ScanSpec::Cl100k(Cl100k {
            marks: true,
            ..QWEN2
        }),
    ),
    ("o200k", ScanSpec::O200k(O200K)),
    (
        "tekken",
        ScanSpec::O200k(O200k {
            contractions: false,
            digits: 1,
            ..O200K
        }),
    ),
    (
        "kimi-k2",
        ScanSpec::O200k(O200k {
            slash: false,
            han: true,
            ..O200K
        }),
    ),
    ("deepseek-v3", ScanSpec::DeepSeekV3),
    ("command-r", ScanSpec::Gpt2(Gpt2 { digits: true })),
    ("r50k", ScanSpec::Gpt2(Gpt2 { digits: false })),
    ("p50k", ScanSpec::Gpt2(Gpt2 { digits: false })),
    ("llama3", ScanSpec::Cl100k(CL100K)),
    ("olmo2", ScanSpec::Cl100k(CL100K)),
    ("qwen3", ScanSpec::Cl100k(QWEN2)),
    ("llama4", ScanSpec::O200k(O200K)),
];

/// The spec of a pattern string that is one of the known ones.
pub fn recognise(pattern: &str, dialect: Dialect) -> Option<ScanSpec> {
    let pattern = escape_newlines(pattern);
    gpt2(&pattern)
        .map(ScanSpec::Gpt2)
        .or_else(|| cl100k(&pattern, dialect).map(ScanSpec::Cl100k))
        .or_else(|| o200k(&pattern, dialect).map(ScanSpec::O200k))
}

/// The spec of a chain of steps that is one of the known ones.
pub fn recognise_steps(steps: &[Step]) -> Option<ScanSpec> {
    match steps {
        [Step::Digits { individual: true }, rest @ ..] => match recognise_steps(rest)? {
            ScanSpec::Gpt2(Gpt2 { digits: false }) => Some(ScanSpec::Gpt2(Gpt2 { digits: true })),
            _ => None,
        },
        [Step::ByteLevel] => Some(ScanSpec::Gpt2(Gpt2::default())),
        [step] => total_split(step).and_then(|(pattern, dialect)| recognise(pattern, dialect)),
        [first, second, third] => {
            let patterns = [first, second, third].map(isolating_split);
            let known = patterns.iter().zip(DEEPSEEK).all(|(pattern, known)| {
                pattern.is_some_and(|pattern| escape_newlines(pattern) == known)
            });
            known.then_some(ScanSpec::DeepSeekV3)
        }
        _ => None,
    }
}

/// JSON files hold either `\r` or the character itself; both mean the same in a regex.
fn escape_newlines(pattern: &str) -> String {
    pattern.replace('\r', r"\r").replace('\n', r"\n")
}

fn isolating_split(step: &Step) -> Option<&str> {
    match step {
        Step::Split {
            pattern,
            behavior: Behavior::Isolated,
            invert: false,
            ..
        } => Some(pattern),
        _ => None,
    }
}

/// A split whose matches become pieces. The known patterns match every character, so dropping
/// what lies between matches changes nothing.
fn total_split(step: &Step) -> Option<(&str, Dialect)> {
    match step {
        Step::Split {
            pattern,
            dialect,
            behavior,
            invert,
        } => {
            let keeps_matches = matches!(
                (behavior, invert),
                (Behavior::Isolated, _) | (Behavior::Removed, true)
            );
            keeps_matches.then_some((pattern.as_str(), *dialect))
        }
        _ => None,
    }
}

/// Takes one of the spellings off the front of `rest`, with the `|` that must follow it.
fn take<'a>(rest: &'a str, spellings: &[&str]) -> Option<&'a str> {
    spellings
        .iter()
        .find_map(|spelling| rest.strip_prefix(spelling)?.strip_prefix('|'))
}

fn is_one_of(rest: &str, spellings: &[&str]) -> bool {
    spellings.contains(&rest)
}

fn gpt2(pattern: &str) -> Option<Gpt2> {
    let rest = take(take(pattern, SHORT)?, GPT2_WORDS)?;
    is_one_of(rest, GPT2_BLANK).then_some(Gpt2 { digits: false })
}

fn take_digits(rest: &str, dialect: Dialect) -> Option<(u8, &str)> {
    // Oniguruma reads `{1,3}+` as a repeated group, not as a possessive quantifier.
    let three: &[&str] = match dialect {
        Dialect::Rust => &[r"\p{N}{1,3}", r"\p{N}{1,3}+"],
        Dialect::Oniguruma => &[r"\p{N}{1,3}"],
    };
    take(rest, three)
        .map(|rest| (3, rest))
        .or_else(|| Some((1, take(rest, &[r"\p{N}"])?)))
}

fn cl100k(pattern: &str, dialect: Dialect) -> Option<Cl100k> {
    let rest = take(pattern, SHORT_ANY_CASE)?;
    let (marks, rest) = match take(rest, LETTERS) {
        Some(rest) => (false, rest),
        None => (true, take(rest, LETTERS_MARKS)?),
    };
    let (digits, rest) = take_digits(rest, dialect)?;
    let rest = take(rest, if marks { OTHERS_UNMARKED } else { OTHERS })?;
    let tail = is_one_of(rest, LINES_TAIL);
    (tail || is_one_of(rest, LINES)).then_some(Cl100k {
        digits,
        marks,
        tail,
    })
}

fn o200k(pattern: &str, dialect: Dialect) -> Option<O200k> {
    let (han, rest) = match take(pattern, &[HAN_RUN]) {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let (contractions, rest) = take_words(rest, han)?;
    let (digits, rest) = take_digits(rest, dialect)?;
    let (slash, rest) = match take(rest, SLASHES) {
        Some(rest) => (true, rest),
        None => (false, take(rest, OTHERS)?),
    };
    is_one_of(rest, LINES).then_some(O200k {
        contractions,
        digits,
        slash,
        han,
    })
}

/// Both word alternatives, with contractions or without.
fn take_words(rest: &str, han: bool) -> Option<(bool, &str)> {
    [true, false].into_iter().find_map(|contractions| {
        let rest = take(rest, &[&word(WORD_ONE, contractions, han)])?;
        Some((
            contractions,
            take(rest, &[&word(WORD_TWO, contractions, han)])?,
        ))
    })
}
