//! `{"token": id, …}`, as a `vocab.json` and the model of a `tokenizer.json` have it.

use std::collections::HashMap;

use super::id_of;
use super::index::Index;
use super::json::{push_plain, read_object};
use super::words::{bad_id, check_not_empty, check_unique_ids, excerpt, refusal, Failure};
use crate::bpe::Tokens;
use crate::jsonl::Parser;
use crate::{spelling, Result};

/// Tokens as a file spells them, and an index from a spelling to its id.
pub struct Spellings {
    tokens: Tokens,
    index: Index,
}

impl Spellings {
    /// Reads a `vocab.json`, which is just the object. `source` is named in errors.
    pub fn read(text: &[u8], source: &str) -> Result<Self> {
        read_object(text, source, |parser| Self::from_object(parser, source))
    }

    /// Reads the object that comes next. `place` is named in errors.
    pub(super) fn from_object(
        parser: &mut Parser<'_>,
        place: &str,
    ) -> std::result::Result<Self, Failure> {
        let tokens = read_members(parser, place)?;
        check_not_empty(&tokens, place)?;
        Ok(Self::new(tokens, place)?)
    }

    fn new(tokens: Tokens, place: &str) -> Result<Self> {
        let Ok(index) = Index::new(&tokens) else {
            return Self::new(last_of_each(&tokens), place);
        };
        check_unique_ids(&tokens, place)?;
        Ok(Self { tokens, index })
    }

    /// Returns the id of a token.
    pub fn id_of(&self, spelling: &[u8]) -> Option<u32> {
        self.index.get(&self.tokens, spelling)
    }

    /// Returns the tokens as text.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns the tokens as bytes, and separately those that are not spelled in the byte alphabet.
    pub fn as_bytes(&self) -> (Tokens, Tokens) {
        let mut tokens = Tokens::with_room(self.tokens.len(), self.tokens.bytes().len());
        let mut outside = Tokens::default();
        for (spelling, id) in self.tokens.iter() {
            if !tokens.push_with(id, |out| spelling::decode(spelling, out)) {
                outside.push(spelling, id);
            }
        }
        (tokens, outside)
    }
}

fn read_members(parser: &mut Parser<'_>, place: &str) -> std::result::Result<Tokens, Failure> {
    let mut tokens = Tokens::default();
    parser.members(|parser, key| {
        let value = parser.skip(3)?;
        let Some(id) = id_of(value) else {
            let mut token = Vec::new();
            push_plain(key, &mut token);
            return Err(bad_id(place, &token, value).into());
        };
        if tokens.push_with(id, |out| push_plain(key, out)) {
            return Ok(());
        }
        let words =
            format!("token '{}' contains a lone surrogate, which is not valid text", excerpt(key));
        Err(Failure::Content(refusal(place, words)))
    })?;
    Ok(tokens)
}

/// If a key occurs twice, the last one counts, as in HF and in Python.
fn last_of_each(tokens: &Tokens) -> Tokens {
    let places: HashMap<&[u8], usize> =
        (0..tokens.len()).map(|place| (tokens.at(place), place)).collect();
    let last = |(place, (token, _)): &(usize, (&[u8], u32))| places.get(token) == Some(place);
    tokens.iter().enumerate().filter(last).map(|(_, pair)| pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_become_tokens() {
        let file = Spellings::read(r#" {"a": 0, "Ġa": 2, "\u4e2d": 5} "#.as_bytes(), "x").unwrap();
        assert_eq!(file.id_of("Ġa".as_bytes()), Some(2));
        assert_eq!(file.id_of(b"b"), None);
        let (tokens, outside) = file.as_bytes();
        assert_eq!(tokens.iter().collect::<Vec<_>>(), [(&b"a"[..], 0), (b" a", 2)]);
        assert_eq!(outside.iter().collect::<Vec<_>>(), [("中".as_bytes(), 5)]);
    }

    #[test]
    fn of_a_doubled_key_the_last_one_counts() {
        let file = Spellings::read(br#"{"a": 0, "b": 1, "a": 2}"#, "x").unwrap();
        assert_eq!(file.tokens().iter().collect::<Vec<_>>(), [(&b"b"[..], 1), (b"a", 2)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("{}", "x: the vocabulary is missing or empty"),
            ("[1]", "x: expected a JSON object"),
            ("{\"a\": 1\n \"b\": 2}", "x:2:2: not valid JSON"),
            (
                r#"{"a": 1.0}"#,
                "x: token 'a' has the id 1.0; expected an integer from 0 to 16777215",
            ),
            (r#"{"\n": -1}"#, r"token '\n' has the id -1;"),
            (r#"{"a": 16777216}"#, "the id 16777216;"),
            (r#"{"a": 123456789012}"#, "the id 123456789012;"),
            (r#"{"a": [1, {"b": 2}]}"#, r#"the id [1, {\"b\": 2}];"#),
            (r#"{"a": 1, "b": 1}"#, "id 1 belongs to both 'a' and 'b'"),
            (r#"{"\ud800": 1}"#, "a lone surrogate"),
        ];
        for (text, words) in cases {
            let error = Spellings::read(text.as_bytes(), "x").err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
