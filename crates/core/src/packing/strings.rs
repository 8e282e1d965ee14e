//! How often any of some strings occurs in texts: special tokens that are to be read as plain text.

use super::check_offsets;
use crate::{Error, Result, Stop};
use aho_corasick::{AhoCorasick, MatchKind};

/// A fixed set of strings to look for.
pub struct StringCounter(AhoCorasick);

impl StringCounter {
    /// Prepares the search; of two strings that start at the same place the longer one counts.
    pub fn new(patterns: &[String]) -> Result<Self> {
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().filter(|pattern| !pattern.is_empty()))
            .map(Self)
            .map_err(|error| Error::Input(format!("cannot search for these strings: {error}")))
    }

    /// The occurrences in all texts `data[offsets[d]..offsets[d + 1]]`, none across two texts.
    pub fn count(&self, data: &[u8], offsets: &[i64], stop: &Stop) -> Result<u64> {
        check_offsets(offsets, data.len())?;
        let mut found = 0;
        for (document, pair) in offsets.windows(2).enumerate() {
            if document % 1024 == 0 {
                stop.check()?;
            }
            found += self
                .0
                .find_iter(&data[pair[0] as usize..pair[1] as usize])
                .count() as u64;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::StringCounter;
    use crate::Stop;

    #[test]
    fn counts_within_texts_only() {
        let strings = StringCounter::new(&["<s>".into(), "<s>!".into(), String::new()]).unwrap();
        let count = |offsets: &[i64]| {
            strings
                .count(b"a<s>b<s>!<s", offsets, &Stop::new())
                .unwrap()
        };
        assert_eq!(count(&[0, 11]), 2);
        assert_eq!(count(&[0, 2, 11]), 1);
        assert_eq!(count(&[0, 0]), 0);
    }
}
