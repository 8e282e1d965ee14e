//! Added tokens: strings that are found in the text before the model sees it.
//!
//! The rules are those of Hugging Face: leftmost-longest matches, then per token whether a match must stand alone
//! (`single_word`) and whether it absorbs the white space next to it (`lstrip`, `rstrip`).

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use fancy_regex::Regex;
use memchr::memmem::Finder;
use serde::Deserialize;

use crate::{Error, Result};

/// One added token and its flags.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // four independent flags of the file format
pub struct Added {
    /// The string to look for.
    pub content: String,
    /// The id that a match becomes.
    pub id: u32,
    /// Whether [`Special`] applies to it.
    pub special: bool,
    /// Absorbs the white space before it.
    pub lstrip: bool,
    /// Absorbs the white space after it.
    pub rstrip: bool,
    /// Matches only if no word character is next to it.
    pub single_word: bool,
    /// Looked for after the normalizer, in its normalized form.
    pub normalized: bool,
    /// A piece of the model itself (such as `SentencePiece`'s user-defined ones): looked for in the text as the model
    /// gets it, with its prefix and its markers.
    #[serde(default)]
    pub piece: bool,
}

/// What the string of a special token inside a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It is the token.
    Parse,
    /// It is ordinary text.
    Text,
    /// It is an error.
    Forbid,
}

/// A part of a text: an added token, or text for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The id of the added token, or `None` for text.
    pub id: Option<u32>,
    /// Where the part starts, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Finds a set of added tokens in a text.
#[derive(Debug)]
pub struct Matcher {
    automaton: AhoCorasick,
    tokens: Vec<Added>,
    // Most sets share a start such as "<|", so one vectorised search can show that no token occurs.
    shared_start: Option<Finder<'static>>,
    /// Whether all of them are special.
    special: bool,
    word: Regex,
}

impl Matcher {
    /// Returns a matcher for tokens, each given with its pattern (for normalized ones it differs from the content); `None`
    /// for an empty set. Of equal patterns the first wins, as in HF.
    pub fn new(tokens: Vec<(String, Added)>) -> Result<Option<Self>> {
        let (patterns, tokens): (Vec<_>, Vec<_>) =
            tokens.into_iter().filter(|(pattern, _)| !pattern.is_empty()).unzip();
        if patterns.is_empty() {
            return Ok(None);
        }
        let kind = if patterns.len() < 4096 {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(kind))
            .build(&patterns)
            .map_err(|error| Error::Tokenizer(format!("added tokens: {error}")))?;
        let word = Regex::new(r"\A\w").map_err(|error| Error::Internal(error.to_string()))?;
        let shared = shared_start(&patterns);
        Ok(Some(Self {
            automaton,
            special: tokens.iter().all(|token| token.special),
            tokens,
            shared_start: (shared.len() > 1).then(|| Finder::new(&shared).into_owned()),
            word,
        }))
    }

    /// Returns whether any pattern that applies may occur in the text.
    pub fn may_occur(&self, text: &str, special: Special) -> bool {
        if self.special && special == Special::Text {
            return false;
        }
        if let Some(finder) = &self.shared_start {
            if finder.find(text.as_bytes()).is_none() {
                return false;
            }
        }
        self.automaton.is_match(text)
    }

    /// Cuts `text` into tokens and the text between them, appended to `parts`.
    pub fn split(&self, text: &str, special: Special, parts: &mut Vec<Part>) -> Result<()> {
        let mut done = 0;
        if self.may_occur(text, special) {
            for found in self.automaton.find_iter(text) {
                let token = &self.tokens[found.pattern().as_usize()];
                let (mut start, mut end) = (found.start(), found.end());
                if token.special && special == Special::Text
                    || token.single_word && !self.stands_alone(text, start, end)
                {
                    continue;
                }
                if token.special && special == Special::Forbid {
                    return Err(forbidden(&token.content, start));
                }
                if token.lstrip {
                    start = text[..start].trim_end().len().max(done);
                }
                if token.rstrip {
                    end = text.len() - text[end..].trim_start().len();
                }
                if done < start {
                    parts.push(text_part(done, start));
                }
                parts.push(Part { id: Some(token.id), start, end });
                done = end;
            }
        }
        if done < text.len() {
            parts.push(text_part(done, text.len()));
        }
        Ok(())
    }

    fn stands_alone(&self, text: &str, start: usize, end: usize) -> bool {
        let before = text[..start].chars().next_back();
        let after = text[end..].chars().next();
        !before.is_some_and(|c| self.is_word(c)) && !after.is_some_and(|c| self.is_word(c))
    }

    fn is_word(&self, c: char) -> bool {
        if c.is_ascii() {
            return c.is_ascii_alphanumeric() || c == '_';
        }
        self.word.is_match(c.encode_utf8(&mut [0; 4])).unwrap_or(false)
    }
}

fn text_part(start: usize, end: usize) -> Part {
    Part { id: None, start, end }
}

fn shared_start(patterns: &[String]) -> Vec<u8> {
    let mut shared = patterns[0].as_bytes();
    for pattern in patterns {
        let equal = shared.iter().zip(pattern.as_bytes()).take_while(|(a, b)| a == b).count();
        shared = &shared[..equal];
    }
    shared.to_vec()
}

fn forbidden(content: &str, at: usize) -> Error {
    Error::Input(format!(
        "the text holds the special token {content:?} at byte {at} and special=\"forbid\"; \
         use special=\"text\" to encode it as ordinary text or special=\"parse\" to encode it as the token"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(content: &str, id: u32) -> Added {
        Added {
            content: content.into(),
            id,
            special: true,
            lstrip: false,
            rstrip: false,
            single_word: false,
            normalized: false,
            piece: false,
        }
    }

    fn parts(
        tokens: Vec<Added>,
        text: &str,
        special: Special,
    ) -> Result<Vec<(Option<u32>, String)>> {
        let with_patterns = tokens.into_iter().map(|t| (t.content.clone(), t)).collect();
        let matcher = Matcher::new(with_patterns)?;
        let mut parts = Vec::new();
        if let Some(matcher) = matcher {
            matcher.split(text, special, &mut parts)?;
        }
        Ok(parts.iter().map(|p| (p.id, text[p.start..p.end].to_owned())).collect())
    }

    #[test]
    fn the_longest_of_the_leftmost_wins() {
        let tokens = vec![token("<a>", 1), token("<a><b>", 2)];
        let got = parts(tokens, "x<a><b>y<a>", Special::Parse).unwrap();
        let want = [
            (None, "x".to_owned()),
            (Some(2), "<a><b>".to_owned()),
            (None, "y".to_owned()),
            (Some(1), "<a>".to_owned()),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn strips_take_white_space_and_single_words_stand_alone() {
        let mut strip = token("[M]", 1);
        (strip.lstrip, strip.rstrip) = (true, true);
        let mut alone = token("ab", 2);
        alone.single_word = true;
        let got = parts(vec![strip, alone], "x \t[M]\n y ab é abé", Special::Parse).unwrap();
        let ids: Vec<_> = got.iter().map(|(id, text)| (*id, text.as_str())).collect();
        let want =
            [(None, "x"), (Some(1), " \t[M]\n "), (None, "y "), (Some(2), "ab"), (None, " é abé")];
        assert_eq!(ids, want);
    }

    #[test]
    fn special_may_be_text_or_an_error() {
        let got = parts(vec![token("<s>", 1)], "a<s>", Special::Text).unwrap();
        assert_eq!(got, [(None, "a<s>".to_owned())]);
        let error = parts(vec![token("<s>", 1)], "a<s>", Special::Forbid).unwrap_err();
        assert!(error.to_string().contains("at byte 1"));
    }
}
