//! Errors about files that the readers refuse.

use super::LARGEST_ID;
use crate::bpe::Tokens;
use crate::jsonl::Fault;
use crate::{Error, Result};

/// How many characters of what was found are shown.
const SHOWN: usize = 60;

/// Returns an error about a file; `place` is its path, with the line and column if they are known.
pub(super) fn refusal(place: impl std::fmt::Display, words: impl std::fmt::Display) -> Error {
    Error::Tokenizer(format!("{place}: {words}"))
}

/// Returns the beginning of a part of a file, escaped.
pub(super) fn excerpt(found: &[u8]) -> String {
    let text = String::from_utf8_lossy(found);
    let more = text.chars().nth(SHOWN).map_or("", |_| "…");
    let text: String = text.chars().take(SHOWN).collect();
    format!("{}{more}", text.escape_debug())
}

/// Returns a token in quotes: `'the'`, or `b'\xe4'` if it is not text.
pub(super) fn quote(token: &[u8]) -> String {
    match std::str::from_utf8(token) {
        Ok(_) => format!("'{}'", excerpt(token)),
        Err(_) => format!("b'{}'", token[..token.len().min(SHOWN)].escape_ascii()),
    }
}

/// Returns the error for something that should be an id.
pub(super) fn bad_id(place: impl std::fmt::Display, token: &[u8], found: &[u8]) -> Error {
    let (token, found) = (quote(token), excerpt(found));
    let words =
        format!("token {token} has the id {found}; expected an integer from 0 to {LARGEST_ID}");
    refusal(place, words)
}

/// Tokens from pairs whose ids have not been checked yet.
pub fn check_pairs(pairs: Vec<(impl AsRef<[u8]>, i128)>, place: &str) -> Result<Tokens> {
    let checked = pairs.into_iter().map(|(token, id)| match u32::try_from(id) {
        Ok(small) if small <= LARGEST_ID => Ok((token, small)),
        _ => Err(bad_id(place, token.as_ref(), id.to_string().as_bytes())),
    });
    checked.collect()
}

/// Returns the place of each id; an error if two tokens have the same one.
pub fn check_unique_ids(tokens: &Tokens, place: &str) -> Result<Vec<u32>> {
    tokens.places().map_err(|(one, other)| {
        let (id, one) = (tokens.ids()[one], quote(tokens.at(one)));
        let words = format!(
            "id {id} belongs to both {one} and {}; each id must name one token: renumber one of them",
            quote(tokens.at(other))
        );
        refusal(place, words)
    })
}

/// Refuses a vocabulary without tokens.
pub(super) fn check_not_empty(tokens: &Tokens, place: &str) -> Result<()> {
    if tokens.is_empty() {
        return Err(refusal(
            place,
            "the vocabulary is missing or empty; expected at least one token",
        ));
    }
    Ok(())
}

/// Why a file is refused: it is not JSON, or its content is not what was expected.
pub(super) enum Failure {
    Json(Fault),
    Content(Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Json(fault)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Content(error)
    }
}

/// Line and column of a byte, counted from 1 as in editors.
pub(super) fn line_and_column(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_shown_short_and_on_one_line() {
        assert_eq!(quote(b"th\n"), r"'th\n'");
        assert_eq!(quote(b"\xe4a"), r"b'\xe4a'");
        assert_eq!(excerpt(&[b'a'; 70]), format!("{}…", "a".repeat(60)));
        assert_eq!(line_and_column("a\n中b".as_bytes(), 5), (2, 2));
    }
}
