//! The regex engine behind the general path: compile, and iterate over matches with a limit.

use fancy_regex::RegexBuilder;

use super::spec::Dialect;
use crate::{Error, Result};

/// Steps that one match may cost before the pattern is considered catastrophic. tiktoken's engine has the same limit;
/// a pattern that needs more takes seconds per document.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub struct Regex {
    inner: fancy_regex::Regex,
}

impl Regex {
    /// Compiles `source`; an error names the pattern and what the engine says about it.
    pub fn new(source: &str, dialect: Dialect) -> Result<Self> {
        let mut builder = match dialect {
            Dialect::Rust => RegexBuilder::new(source),
            Dialect::Oniguruma => RegexBuilder::new(&with_oniguruma_words(source)),
        };
        builder.backtrack_limit(BACKTRACK_LIMIT);
        if dialect == Dialect::Oniguruma {
            // In Ruby's syntax, `^` and `$` always match at line boundaries.
            builder.oniguruma_mode(true).multi_line(true);
        }
        let inner = builder.build().map_err(|error| Error::Pattern {
            pattern: source.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { inner })
    }

    /// Calls `visit(start, end)` for each match in `text`, from left to right.
    pub fn for_each_match(&self, text: &str, mut visit: impl FnMut(usize, usize)) -> Result<()> {
        for found in self.inner.find_iter(text) {
            let found = found.map_err(|error| Error::PatternLimit {
                pattern: self.inner.as_str().to_owned(),
                reason: error.to_string(),
            })?;
            visit(found.start(), found.end());
        }
        Ok(())
    }
}

/// Spells out `\w`, `\W` and `[:punct:]` as Oniguruma reads them: it does not count joiners as word characters, but
/// does count superscripts and fractions outside brackets; punctuation includes symbols. Over all scalar values,
/// these are its only differences from this engine.
fn with_oniguruma_words(source: &str) -> String {
    const WORD: &str = r"[\w²³¹¼½¾&&[^\u200c\u200d]]";
    const WORD_IN_BRACKETS: &str = r"[\w&&[^\u200c\u200d]]";
    const PUNCTUATION: &str = "[:punct:]";
    let (mut pattern, mut rest) = (String::with_capacity(source.len()), source);
    let mut depth = 0usize;
    while let Some(at) = rest.find(['\\', '[', ']']) {
        let (before, found) = rest.split_at(at);
        pattern.push_str(before);
        let end = if depth > 0 && found.starts_with(PUNCTUATION) {
            PUNCTUATION.len()
        } else if let Some(escaped) = found.strip_prefix('\\') {
            1 + escaped.chars().next().map_or(0, char::len_utf8)
        } else {
            1
        };
        let word = if depth > 0 { WORD_IN_BRACKETS } else { WORD };
        match &found[..end] {
            r"\w" => pattern.push_str(word),
            r"\W" => pattern.extend(["[^", word, "]"]),
            PUNCTUATION => pattern.push_str(r"\p{P}\p{S}"),
            other => pattern.push_str(other),
        }
        match &found[..end] {
            "[" => depth += 1,
            "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        rest = &found[end..];
    }
    pattern + rest
}

#[cfg(test)]
mod tests {
    use super::{with_oniguruma_words, Regex};
    use crate::scan::Dialect;

    fn matches(pattern: &str, dialect: Dialect, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let pattern = Regex::new(pattern, dialect).unwrap();
        pattern
            .for_each_match(text, |start, end| found.push((start, end)))
            .unwrap();
        found
    }

    #[test]
    fn oniguruma_words_are_spelled_out_and_nothing_else_is() {
        assert_eq!(with_oniguruma_words(r"a\\w\s\"), r"a\\w\s\");
        assert_eq!(
            matches(r"[^\w\s]", Dialect::Oniguruma, "a²!"),
            [(1, 3), (3, 4)]
        );
        assert_eq!(
            matches("[[:punct:]]", Dialect::Oniguruma, "a»€."),
            [(1, 3), (3, 6), (6, 7)]
        );
        assert_eq!(matches(r"[a]\w", Dialect::Oniguruma, "a²!"), [(0, 3)]);
        assert_eq!(matches(r"\W", Dialect::Oniguruma, "a²!"), [(3, 4)]);
        assert_eq!(matches(r"\w+", Dialect::Rust, "a²"), [(0, 1)]);
    }

    #[test]
    fn dialects_differ_in_lines_and_in_repetition() {
        assert_eq!(matches("a$", Dialect::Oniguruma, "a\na"), [(0, 1), (2, 3)]);
        assert_eq!(matches("a$", Dialect::Rust, "a\na"), [(2, 3)]);
        assert_eq!(matches("1{1,3}+", Dialect::Oniguruma, "1111"), [(0, 4)]);
        assert_eq!(matches("1{1,3}+", Dialect::Rust, "1111"), [(0, 3), (3, 4)]);
    }
}
