//! Loops over flat texts: hashes for exact duplicates, occurrences of strings, blank texts.

use aho_corasick::{AhoCorasick, MatchKind};
use xxhash_rust::xxh3::xxh3_128;

use super::check_offsets;
use crate::{Error, Result, Stop};

/// Returns the XXH3-128 of every text `data[offsets[d]..offsets[d + 1]]`, as low and high 64 bits one after another.
pub fn hash_texts(data: &[u8], offsets: &[i64], stop: &Stop) -> Result<Vec<u64>> {
    check_offsets(offsets, data.len())?;
    let mut hashes = Vec::with_capacity(2 * (offsets.len() - 1));
    for (document, pair) in offsets.windows(2).enumerate() {
        if document % 1024 == 0 {
            stop.check()?;
        }
        let hash = xxh3_128(&data[pair[0] as usize..pair[1] as usize]);
        hashes.extend([hash as u64, (hash >> 64) as u64]);
    }
    Ok(hashes)
}

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

    /// Returns the occurrences in all texts `data[offsets[d]..offsets[d + 1]]`, none across two texts.
    pub fn count(&self, data: &[u8], offsets: &[i64], stop: &Stop) -> Result<u64> {
        check_offsets(offsets, data.len())?;
        let mut found = 0;
        for (document, pair) in offsets.windows(2).enumerate() {
            if document % 1024 == 0 {
                stop.check()?;
            }
            found += self.0.find_iter(&data[pair[0] as usize..pair[1] as usize]).count() as u64;
        }
        Ok(found)
    }
}

/// Returns whether each text `data[offsets[d]..offsets[d + 1]]`, which is UTF-8, is empty or all white space as
/// Python's `str.isspace` has it. Almost every text is settled by its first character.
pub fn blank_texts(data: &[u8], offsets: &[i64]) -> Result<Vec<bool>> {
    check_offsets(offsets, data.len())?;
    let texts = offsets.windows(2).map(|pair| &data[pair[0] as usize..pair[1] as usize]);
    Ok(texts.map(is_blank).collect())
}

fn is_blank(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        // A few characters at a time, so that the first one that is not a space ends it.
        let mut take = rest.len().min(64);
        while take < rest.len() && rest[take] & 0xc0 == 0x80 {
            take += 1;
        }
        let (part, after) = rest.split_at(take);
        match std::str::from_utf8(part) {
            Ok(part) if part.chars().all(is_space) => {}
            _ => return false,
        }
        if after.is_empty() {
            return true;
        }
        rest = after;
    }
}

/// Unicode's white space, and the four separators of ASCII that Python counts with it.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;

    #[test]
    fn equal_texts_have_equal_hashes() {
        let hashes = hash_texts(b"abcabcab", &[0, 3, 6, 8], &Stop::new()).unwrap();
        assert_eq!(hashes[0..2], hashes[2..4]);
        assert_ne!(hashes[0..2], hashes[4..6]);
    }

    #[test]
    fn counts_within_texts_only() {
        let strings = StringCounter::new(&["<s>".into(), "<s>!".into(), String::new()]).unwrap();
        let count = |offsets: &[i64]| strings.count(b"a<s>b<s>!<s", offsets, &Stop::new()).unwrap();
        assert_eq!(count(&[0, 11]), 2);
        assert_eq!(count(&[0, 2, 11]), 1);
        assert_eq!(count(&[0, 0]), 0);
    }

    #[test]
    fn blank_is_nothing_but_space() {
        let texts = ["", " \t\r\n\u{3000}\u{1f}", "a", "  b", "\u{200b}", &"\u{2003}".repeat(100)];
        let mut offsets = vec![0];
        offsets.extend(texts.iter().scan(0, |end, text| {
            *end += text.len() as i64;
            Some(*end)
        }));
        let found = blank_texts(texts.concat().as_bytes(), &offsets).unwrap();
        assert_eq!(found, [true, true, false, false, false, true]);
    }
}
