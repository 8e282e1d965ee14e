//! The spellings of alternatives that several known patterns share.
//!
//! A published pattern comes in several spellings that match the same text. Each top-level alternative is looked up
//! among its known spellings; the first of them is the canonical one.

use super::spec::{Behavior, Dialect, Pattern, Step};

/// Contractions in any case.
pub const SHORT_ANY_CASE: &[&str] = &["(?i:'s|'t|'re|'ve|'m|'ll|'d)", "'(?i:[sdmt]|ll|ve|re)"];
/// Punctuation with the newlines after it.
pub const OTHERS: &[&str] = &[
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r" ?[^\s\p{L}\p{N}]++[\r\n]*",
    r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
];
/// White space up to the last newline, then the rest.
pub const LINES: &[&str] = &[
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s*[\r\n]+|\s+(?!\S)|\s",
    r"\s*[\r\n]|\s+(?!\S)|\s+",
];

/// The one regex of a chain, with newlines escaped, and its dialect. The known patterns match every character, so
/// dropping what lies between matches changes nothing.
pub fn one_regex(steps: &[Step]) -> Option<(String, Dialect)> {
    match steps {
        [Step::Split {
            pattern: Pattern::Regex(regex),
            behavior,
            invert,
            dialect,
        }] => {
            let keeps_matches = matches!(
                (behavior, invert),
                (Behavior::Isolated, _) | (Behavior::Removed, true)
            );
            keeps_matches.then(|| (escape_newlines(regex), *dialect))
        }
        _ => None,
    }
}

/// JSON files hold either `\r` or the character itself; both mean the same in a regex.
pub fn escape_newlines(pattern: &str) -> String {
    pattern.replace('\r', r"\r").replace('\n', r"\n")
}

/// Takes one of the spellings off the front of `rest`, with the `|` that must follow it.
pub fn take<'a>(rest: &'a str, spellings: &[&str]) -> Option<&'a str> {
    spellings
        .iter()
        .find_map(|spelling| rest.strip_prefix(spelling)?.strip_prefix('|'))
}

/// Takes the number alternative off the front: the longest run of numbers in one piece, and the rest.
pub fn take_digits(rest: &str, dialect: Dialect) -> Option<(u8, &str)> {
    // Oniguruma reads `{1,3}+` as a repeated group, not as a possessive quantifier.
    let three: &[&str] = match dialect {
        Dialect::Rust => &[r"\p{N}{1,3}", r"\p{N}{1,3}+"],
        Dialect::Oniguruma => &[r"\p{N}{1,3}"],
    };
    take(rest, three)
        .map(|rest| (3, rest))
        .or_else(|| Some((1, take(rest, &[r"\p{N}"])?)))
}

/// The number alternative.
pub fn digits(limit: u8) -> &'static str {
    if limit == 1 {
        r"\p{N}"
    } else {
        r"\p{N}{1,3}"
    }
}
