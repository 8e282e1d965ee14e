//! The regex engine behind the general path: compile, and iterate over matches with a limit.

use fancy_regex::{Regex, RegexBuilder};

use super::spec::Dialect;
use crate::{Error, Result};

/// Steps that one match may cost before the pattern is called catastrophic. tiktoken's engine has
/// the same limit; a pattern that needs more takes seconds a document.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// Compiles `source`; an error names the pattern and what the engine says of it.
    pub fn new(source: &str, dialect: Dialect) -> Result<Self> {
        let mut builder = RegexBuilder::new(source);
        builder.backtrack_limit(BACKTRACK_LIMIT);
        if dialect == Dialect::Oniguruma {
            // In Ruby's syntax `^` and `$` are always those of a line.
            builder.oniguruma_mode(true).multi_line(true);
        }
        let regex = builder.build().map_err(|error| Error::Pattern {
            pattern: source.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { regex })
    }

    /// Calls `visit(start, end)` for each match in `text`, from left to right.
    pub fn for_each_match(&self, text: &str, mut visit: impl FnMut(usize, usize)) -> Result<()> {
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|error| Error::PatternLimit {
                pattern: self.regex.as_str().to_owned(),
                reason: error.to_string(),
            })?;
            visit(found.start(), found.end());
        }
        Ok(())
    }
}
