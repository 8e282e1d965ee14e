//! Which regexes of Hugging Face's files our engine provably reads as Oniguruma does.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::unsupported;
use crate::scan::{Dialect, Pattern, Step};
use crate::Result;

/// The contractions that published patterns have; folding of other letters differs (`(?i:ss)` is also ß to HF).
const FOLDED: &str = r"\(\?i:(?:'s\|'t\|'re\|'ve\|'m\|'ll\|'d|\[sdmt\]\|ll\|ve\|re)\)";
const GROUP: &str = r"\(\?(?:[:=!>]|<[=!])";
/// Properties that mean the same characters in both engines.
const PROPERTIES: &str = "L|Lu|Ll|Lt|Lm|Lo|M|Mn|Mc|Me|N|Nd|Nl|No|P|Pc|Pd|Ps|Pe|Pi|Pf|Po|S|Sm|Sc|Sk|So|Z|Zs|Zl|Zp|\
    C|Cc|Cf|Cn|Co|Han|Hangul|Hiragana|Katakana|Latin|Cyrillic|Greek|Arabic|Hebrew|Thai|Devanagari|Bengali|Tamil|\
    Armenian|Georgian|Emoji|Letter|Number|Punctuation|Symbol|Alphabetic|Uppercase|Lowercase|White_Space";

/// Splits any pattern into parts.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let rest = r"\(\?|\\[pP]\{[^}]*\}|\\u....|\\x..|\\.|\[\^?|\]|[^\\\[\](]+|\(|\\";
    Regex::new(&format!("(?s){FOLDED}|{GROUP}|{rest}")).expect("our own pattern compiles")
});
/// A part that both engines read alike; the scan writes out `\w` as Oniguruma defines it.
static SAME: LazyLock<Regex> = LazyLock::new(|| {
    let rest = r"\\u[0-9A-Fa-f]{4}|\\x[0-7][0-9A-Fa-f]|\\[sSdDwWrnt]|\\[^\w]|\(|[^\\(]*";
    let whole = format!(r"(?s)\A(?:{FOLDED}|{GROUP}|\\[pP]\{{(?:{PROPERTIES})\}}|{rest})\z");
    Regex::new(&whole).expect("our own pattern compiles")
});

/// Refuses a split whose pattern the two engines may read differently.
pub fn check(step: &Step) -> Result<()> {
    match step {
        Step::Split { pattern: Pattern::Regex(regex), dialect: Dialect::Oniguruma, .. } => {
            check_pattern(regex)
        }
        _ => Ok(()),
    }
}

fn check_pattern(pattern: &str) -> Result<()> {
    if pattern.contains("[[:") {
        return unsupported("a Split pattern with POSIX brackets");
    }
    let mut depth = 0u32;
    for part in PARTS.find_iter(pattern).flatten() {
        let part = part.as_str();
        let in_class = depth > 0 && part == "(?";
        if !in_class && !SAME.is_match(part).unwrap_or(false) {
            return unsupported(format!(
                "a Split pattern with {part}, which regex engines read differently"
            ));
        }
        match part.as_bytes() {
            [b'[', ..] => depth += 1,
            b"]" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_pattern;

    #[test]
    fn published_patterns_pass() {
        for pattern in [
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+(?=\s)|[^\s\]]{1,3}+",
            r"[\w(?]+|\W|\u4e00|\x7F|(?<!a)b",
        ] {
            check_pattern(pattern).unwrap();
        }
    }

    #[test]
    fn what_engines_read_differently_is_refused() {
        for pattern in
            [r"[[:alpha:]]", r"\h+", r"(?i)a", r"(?i:ss)", r"\p{Tibetan}", r"\xC0", r"\bx", r"a\"]
        {
            assert!(check_pattern(pattern).is_err(), "{pattern}");
        }
    }
}
