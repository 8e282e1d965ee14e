//! The regex engine behind the general path: compile, and iterate over matches with a limit.

use fancy_regex::internal::{FLAG_MULTI, FLAG_ONIGURUMA_MODE, FLAG_UNICODE};
use fancy_regex::{Expr, RegexBuilder};

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

/// The parse tree of a pattern, as [`Regex::new`] reads it; None if it does not parse.
pub fn parse(source: &str, dialect: Dialect) -> Option<Expr> {
    let tree = match dialect {
        Dialect::Rust => Expr::parse_tree_with_flags(source, FLAG_UNICODE),
        Dialect::Oniguruma => {
            let flags = FLAG_UNICODE | FLAG_ONIGURUMA_MODE | FLAG_MULTI;
            Expr::parse_tree_with_flags(&with_oniguruma_words(source), flags)
        }
    };
    tree.ok().map(|tree| tree.expr)
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
