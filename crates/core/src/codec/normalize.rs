//! Normalizers, exactly as Hugging Face applies them.
//!
//! Each step rewrites a text into a [`Sink`]: a plain `String` for ids alone, or an [`Aligned`] that also
//! remembers where every byte came from. NFC and its kin use the same Unicode 9.0 tables as HF: a newer
//! normaliser changes code points that HF leaves alone.

use std::borrow::Cow;
use std::sync::OnceLock;

use fancy_regex::Regex;
use memchr::memmem;
use unicode_normalization_alignments::char::{canonical_combining_class, is_combining_mark};
use unicode_normalization_alignments::{IsNormalized, UnicodeNormalization};

use crate::{Error, Result};

/// One step of a normalizer.
#[derive(Debug)]
pub enum Step {
    /// Canonical composition.
    Nfc,
    /// Canonical decomposition.
    Nfd,
    /// Compatibility composition.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
    /// Every character's lower case, one by one.
    Lowercase,
    /// Drops combining marks.
    StripAccents,
    /// Drops white space at the start, at the end, or both.
    Strip {
        /// At the start.
        left: bool,
        /// At the end.
        right: bool,
    },
    /// Puts a string before a text that is not empty.
    Prepend(String),
    /// Replaces a literal.
    Replace(String, String),
    /// Replaces each match of a pattern.
    ReplaceRegex(Box<Regex>, String),
}

/// Where a step writes.
trait Sink {
    /// `out` stands for the bytes `from..to` of the input.
    fn put(&mut self, out: &str, from: usize, to: usize);
    /// `text[from..to]` is unchanged.
    fn copy(&mut self, text: &str, from: usize, to: usize);
}

impl Sink for String {
    fn put(&mut self, out: &str, _: usize, _: usize) {
        self.push_str(out);
    }
    fn copy(&mut self, text: &str, from: usize, to: usize) {
        self.push_str(&text[from..to]);
    }
}

/// A text and, for each of its bytes, the bytes of the original that it stands for.
#[derive(Debug, Clone)]
pub struct Aligned {
    /// The text as it is now.
    pub text: String,
    /// One `(start, end)` for each byte of `text`.
    pub origin: Vec<(usize, usize)>,
}

impl Aligned {
    /// A text that starts at byte `base` of the original and has not been changed.
    pub fn new(text: &str, base: usize) -> Self {
        let mut aligned = Self {
            text: String::with_capacity(text.len()),
            origin: Vec::with_capacity(text.len()),
        };
        aligned.copy(text, 0, text.len());
        for (start, end) in &mut aligned.origin {
            *start += base;
            *end += base;
        }
        aligned
    }

    /// What `start..end` of the text stands for in the original.
    pub fn original(&self, start: usize, end: usize) -> (usize, usize) {
        let low = self.origin[start..end].iter().map(|o| o.0).min();
        let high = self.origin[start..end].iter().map(|o| o.1).max();
        (low.unwrap_or(0), high.unwrap_or(0))
    }

    /// The same part as an aligned text of its own.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        Self {
            text: self.text[start..end].to_owned(),
            origin: self.origin[start..end].to_vec(),
        }
    }

    fn rebased(mut self, inner: &Self) -> Self {
        for place in &mut self.origin {
            *place = if place.0 == place.1 {
                let at = inner.origin.get(place.0).map_or(0, |o| o.0);
                (at, at)
            } else {
                inner.original(place.0, place.1)
            };
        }
        self
    }
}

impl Sink for Aligned {
    fn put(&mut self, out: &str, from: usize, to: usize) {
        self.text.push_str(out);
        self.origin.resize(self.text.len(), (from, to));
    }
    fn copy(&mut self, text: &str, from: usize, to: usize) {
        for (at, c) in text[from..to].char_indices() {
            let place = (from + at, from + at + c.len_utf8());
            self.origin.resize(self.origin.len() + c.len_utf8(), place);
        }
        self.text.push_str(&text[from..to]);
    }
}

/// Applies the steps to a text; borrowed back when nothing changes it.
pub fn normalize<'a>(steps: &[Step], text: &'a str) -> Result<Cow<'a, str>> {
    let mut current = Cow::Borrowed(text);
    for step in steps {
        if step.keeps(&current) {
            continue;
        }
        let mut out = String::with_capacity(current.len() + current.len() / 8 + 8);
        step.rewrite(&current, &mut out)?;
        current = Cow::Owned(out);
    }
    Ok(current)
}

/// Applies the steps to an aligned text.
pub fn normalize_aligned(steps: &[Step], text: Aligned) -> Result<Aligned> {
    let mut current = text;
    for step in steps {
        let mut out = Aligned {
            text: String::new(),
            origin: Vec::new(),
        };
        step.rewrite(&current.text, &mut out)?;
        current = out.rebased(&current);
    }
    Ok(current)
}

impl Step {
    /// The step that replaces each match of `pattern`; fails when it does not compile.
    pub fn replace_regex(pattern: &str, content: String) -> Result<Self> {
        let regex = Regex::new(pattern).map_err(|error| Error::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self::ReplaceRegex(Box::new(regex), content))
    }

    /// A cheap proof that the step leaves the text as it is.
    fn keeps(&self, text: &str) -> bool {
        match self {
            Self::Nfc => is_surely_nfc(text),
            Self::Nfd | Self::Nfkc | Self::Nfkd | Self::StripAccents => text.is_ascii(),
            Self::Prepend(_) => text.is_empty(),
            Self::Replace(old, _) => memmem::find(text.as_bytes(), old.as_bytes()).is_none(),
            Self::Strip { left, right } => {
                !(*left && text.starts_with(char::is_whitespace)
                    || *right && text.ends_with(char::is_whitespace))
            }
            Self::Lowercase | Self::ReplaceRegex(..) => false,
        }
    }

    /// Whether the step changes characters one by one and leaves a safe cut what it is: letters stay letters, white
    /// space stays what it is (or becomes the word marker), and none comes from elsewhere.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Replace(old, new) if old == " " => new == "▁",
            Self::Replace(old, new) => {
                let is_sign = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
                old.chars().count() == 1
                    && old.chars().all(is_sign)
                    && !new.contains(char::is_whitespace)
            }
            Self::StripAccents | Self::Strip { .. } | Self::Prepend(_) | Self::ReplaceRegex(..) => {
                false
            }
            _ => true,
        }
    }

    fn rewrite(&self, text: &str, sink: &mut impl Sink) -> Result<()> {
        match self {
            Self::Nfc => transform(text, text.nfc(), sink),
            Self::Nfd => transform(text, text.nfd(), sink),
            Self::Nfkc => transform(text, text.nfkc(), sink),
            Self::Nfkd => transform(text, text.nfkd(), sink),
            Self::Lowercase => map_chars(text, sink, |c, out| out.extend(c.to_lowercase())),
            Self::StripAccents => map_chars(text, sink, |c, out| {
                if !is_combining_mark(c) {
                    out.push(c);
                }
            }),
            Self::Strip { left, right } => {
                let mut start = 0;
                let mut end = text.len();
                if *left {
                    start = text.len() - text.trim_start().len();
                }
                if *right {
                    end = text.trim_end().len().max(start);
                }
                sink.copy(text, start, end);
            }
            Self::Prepend(start) => {
                if !text.is_empty() {
                    let first = text.chars().next().map_or(0, char::len_utf8);
                    sink.put(start, 0, first);
                }
                sink.copy(text, 0, text.len());
            }
            Self::Replace(old, new) => {
                let places = memmem::find_iter(text.as_bytes(), old.as_bytes());
                replace(text, places.map(|at| (at, at + old.len())), new, sink);
            }
            Self::ReplaceRegex(pattern, new) => {
                let mut places = Vec::new();
                for found in pattern.find_iter(text) {
                    let found = found.map_err(|error| too_hard(&error))?;
                    places.push((found.start(), found.end()));
                }
                replace(text, places.into_iter(), new, sink);
            }
        }
        Ok(())
    }
}

fn too_hard(error: &fancy_regex::Error) -> Error {
    Error::Input(format!(
        "the normalizer's pattern gave up on this text ({error}); simplify the pattern"
    ))
}

fn replace(
    text: &str,
    places: impl Iterator<Item = (usize, usize)>,
    new: &str,
    sink: &mut impl Sink,
) {
    let mut done = 0;
    for (start, end) in places {
        sink.copy(text, done, start);
        sink.put(new, start, end);
        done = end;
    }
    sink.copy(text, done, text.len());
}

fn map_chars(text: &str, sink: &mut impl Sink, change: impl Fn(char, &mut String)) {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        out.clear();
        change(c, &mut out);
        sink.put(&out, at, at + c.len_utf8());
    }
}

/// Feeds `(character, change)` pairs: 0 replaces the next character, a positive change adds one, a
/// negative one replaces the next and drops as many after it.
fn transform(text: &str, changed: impl Iterator<Item = (char, isize)>, sink: &mut impl Sink) {
    let mut source = text.char_indices();
    let mut place = (0, 0);
    let mut buffer = [0; 4];
    for (c, change) in changed {
        if change <= 0 {
            if let Some((at, old)) = source.next() {
                place = (at, at + old.len_utf8());
            }
            for _ in 0..change.unsigned_abs() {
                source.next();
            }
        }
        sink.put(c.encode_utf8(&mut buffer), place.0, place.1);
    }
}

/// One bit for each code point below 0x30000 that neither changes under NFC nor joins its neighbours.
fn inert() -> &'static [u64] {
    static TABLE: OnceLock<Vec<u64>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut bits = vec![0u64; 0x30000 / 64];
        for code in 0..0x30000u32 {
            let Some(c) = char::from_u32(code) else {
                continue;
            };
            let alone = std::iter::once(c);
            let quick = unicode_normalization_alignments::is_nfc_quick(alone);
            if canonical_combining_class(c) == 0 && matches!(quick, IsNormalized::Yes) {
                bits[code as usize / 64] |= 1 << (code % 64);
            }
        }
        bits
    })
}

fn is_surely_nfc(text: &str) -> bool {
    if text.is_ascii() {
        return true;
    }
    let table = inert();
    text.chars().all(|c| {
        let code = c as usize;
        // Nothing above the third plane had a decomposition or a combining class in Unicode 9.0.
        code >= 0x30000 || table[code / 64] >> (code % 64) & 1 == 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_rewrite_and_align() {
        let steps = [
            Step::Prepend("▁".into()),
            Step::Replace(" ".into(), "▁".into()),
        ];
        assert_eq!(normalize(&steps, "a b").unwrap(), "▁a▁b");
        let aligned = normalize_aligned(&steps, Aligned::new("a b", 10)).unwrap();
        assert_eq!(aligned.text, "▁a▁b");
        assert_eq!(aligned.original(0, 4), (10, 11));
        assert_eq!(aligned.original(4, 8), (11, 13));
    }

    #[test]
    fn composition_is_aligned_to_what_it_joins() {
        let text = "ae\u{301}x";
        assert_eq!(normalize(&[Step::Nfc], text).unwrap(), "aéx");
        let aligned = normalize_aligned(&[Step::Nfc], Aligned::new(text, 0)).unwrap();
        assert_eq!(aligned.origin[3], (4, 5));
    }

    #[test]
    fn the_quick_proof_agrees_with_the_tables() {
        for code in 0..=0x10FFFFu32 {
            if let Some(c) = char::from_u32(code) {
                let text = format!("a{c}b");
                let full: String = text.nfc().map(|(c, _)| c).collect();
                assert!(!is_surely_nfc(&text) || full == text, "{code:x}");
            }
        }
    }
}
