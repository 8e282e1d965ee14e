//! Normalizers, exactly as Hugging Face applies them.
//!
//! Each step rewrites a text into a [`Sink`]: a plain `String` if only ids are wanted, or one that also remembers
//! where every byte came from (`aligned`). NFC and its relatives use the same Unicode 9.0 tables as HF: a newer
//! normalizer changes code points that HF leaves alone.

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
    /// Lower-cases every character, one by one.
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
pub(super) trait Sink {
    /// `out` comes from wherever byte `at` of the input comes from, or from none of it.
    fn put(&mut self, out: &str, at: Option<usize>);
    /// `text[from..to]` is unchanged.
    fn copy(&mut self, text: &str, from: usize, to: usize);
}

impl Sink for String {
    fn put(&mut self, out: &str, _: Option<usize>) {
        self.push_str(out);
    }
    fn copy(&mut self, text: &str, from: usize, to: usize) {
        self.push_str(&text[from..to]);
    }
}

/// Applies the steps to a text, which is returned borrowed if nothing changes it.
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

impl Step {
    /// Returns the step that replaces each match of `pattern`; fails if the pattern does not compile.
    pub fn replace_regex(pattern: &str, content: String) -> Result<Self> {
        let regex = Regex::new(pattern).map_err(|error| Error::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self::ReplaceRegex(Box::new(regex), content))
    }

    /// Returns a cheap proof that the step leaves the text as it is.
    fn keeps(&self, text: &str) -> bool {
        match self {
            Self::Nfc => next_active(text, 0).is_none(),
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

    /// Returns whether the step changes characters one by one and keeps safe cuts safe: letters stay letters, white space
    /// stays what it is (or becomes the word marker), and no other character becomes white space.
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

    pub(super) fn rewrite(&self, text: &str, sink: &mut impl Sink) -> Result<()> {
        match self {
            Self::Nfc => compose(text, sink),
            Self::Nfd => transform(text, 0, text.nfd(), sink),
            Self::Nfkc => transform(text, 0, text.nfkc(), sink),
            Self::Nfkd => transform(text, 0, text.nfkd(), sink),
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
                    sink.put(start, Some(0));
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
        // All of it maps to the last character that it replaces, as in HF.
        sink.put(new, end.checked_sub(1));
        done = end;
    }
    sink.copy(text, done, text.len());
}

fn map_chars(text: &str, sink: &mut impl Sink, change: impl Fn(char, &mut String)) {
    let mut out = String::new();
    for (at, c) in text.char_indices() {
        out.clear();
        change(c, &mut out);
        sink.put(&out, Some(at));
    }
}

/// Takes `(character, change)` pairs: 0 replaces the next character, a positive change adds one, a negative one
/// replaces the next and drops that many after it. `text` starts at byte `start` of the input.
fn transform(
    text: &str,
    start: usize,
    changed: impl Iterator<Item = (char, isize)>,
    sink: &mut impl Sink,
) {
    let mut source = text.chars().map(char::len_utf8);
    let mut done = start;
    let mut buffer = [0; 4];
    for (c, change) in changed {
        let at = if change > 0 { done.checked_sub(1) } else { Some(done) };
        if change <= 0 {
            let dropped = change.unsigned_abs();
            done += source.by_ref().take(1 + dropped).sum::<usize>();
        }
        sink.put(c.encode_utf8(&mut buffer), at);
    }
}

/// NFC of what may change, and a copy of the rest, so that one letter with a mark no longer causes a whole document
/// to be composed (code with Qwen 3: a quarter of the time). Nothing joins across the start of an inert character, so
/// each span starts at the character before the first active one and ends before the next inert one.
fn compose(text: &str, sink: &mut impl Sink) {
    let mut done = 0;
    while let Some(active) = next_active(text, done) {
        let before = text[done..active].chars().next_back();
        let start = active - before.map_or(0, char::len_utf8);
        let inert = |c: char| Inert::get().has(c);
        let end = text[active..].find(inert).map_or(text.len(), |len| active + len);
        sink.copy(text, done, start);
        let span = &text[start..end];
        transform(span, start, span.nfc(), sink);
        done = end;
    }
    sink.copy(text, done, text.len());
}

/// Outside these ranges every character is inert: to ask for each of them, Han, Hangul and old scripts above all, took
/// 2 ms, a sixth of the first 2 MB of code with Qwen 3.
const ACTIVE: [std::ops::Range<char>; 6] = [
    '\0'..'\u{3400}',
    '\u{A000}'..'\u{AC00}',
    '\u{F900}'..'\u{12000}',
    '\u{16A00}'..'\u{17000}',
    '\u{1BC00}'..'\u{1F000}',
    '\u{2F800}'..'\u{2FA20}',
];

/// Characters that neither change under NFC nor join their neighbours.
struct Inert {
    /// One bit for each code point below 0x30000.
    codes: Vec<u64>,
    /// Bytes that begin only such characters: ASCII, bytes inside a character, and the first bytes of whole blocks.
    bytes: [bool; 256],
}

impl Inert {
    fn get() -> &'static Self {
        static TABLE: OnceLock<Inert> = OnceLock::new();
        TABLE.get_or_init(|| {
            let (mut codes, mut bytes) = (vec![u64::MAX; 0x30000 / 64], [true; 256]);
            // Planes that the bits do not cover.
            bytes[0xF0..].fill(false);
            for c in ACTIVE.into_iter().flatten().filter(|c| !Self::is(*c)) {
                codes[c as usize / 64] &= !(1 << (c as usize % 64));
                bytes[c.encode_utf8(&mut [0; 4]).as_bytes()[0] as usize] = false;
            }
            Inert { codes, bytes }
        })
    }

    /// Returns the definition, which the table holds.
    fn is(c: char) -> bool {
        let quick = unicode_normalization_alignments::is_nfc_quick(std::iter::once(c));
        canonical_combining_class(c) == 0 && matches!(quick, IsNormalized::Yes)
    }

    fn has(&self, c: char) -> bool {
        let code = c as usize;
        // Nothing above the third plane had a decomposition or a combining class in Unicode 9.0.
        code >= 0x30000 || self.codes[code / 64] >> (code % 64) & 1 == 1
    }
}

/// Returns the position of the next character, from byte `from` on, that NFC may change or join to its neighbours. Bytes are
/// checked where they are enough: decoding every character took 23 % of French in Qwen 3.
fn next_active(text: &str, from: usize) -> Option<usize> {
    const CHUNK: usize = 64;
    // The first byte of U+0300, the first character that joins another.
    const JOINS: u8 = 0xCC;
    let mut inert = None;
    for (number, chunk) in text.as_bytes()[from..].chunks(CHUNK).enumerate() {
        if chunk.iter().fold(0, |most, &byte| byte.max(most)) < JOINS {
            continue;
        }
        let inert = *inert.get_or_insert_with(Inert::get);
        for (at, &byte) in chunk.iter().enumerate() {
            let place = from + number * CHUNK + at;
            if !inert.bytes[byte as usize] && !text[place..].starts_with(|c| inert.has(c)) {
                return Some(place);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inert_characters_are_those_of_the_definition() {
        assert!(('\0'..='\u{10FFFF}').all(|c| Inert::get().has(c) == Inert::is(c)));
    }

    #[test]
    fn steps_rewrite() {
        let steps = [Step::Prepend("▁".into()), Step::Replace(" ".into(), "▁".into())];
        assert_eq!(normalize(&steps, "a b").unwrap(), "▁a▁b");
        assert_eq!(normalize(&[Step::Nfc], "ae\u{301}x").unwrap(), "aéx");
    }

    #[test]
    fn the_quick_proof_agrees_with_the_tables() {
        for code in 0..=0x10FFFFu32 {
            if let Some(c) = char::from_u32(code) {
                let text = format!("a{c}b");
                let full: String = text.nfc().map(|(c, _)| c).collect();
                assert!(next_active(&text, 0).is_some() || full == text, "{code:x}");
            }
        }
    }

    /// What a step writes, with the place that each character comes from.
    #[derive(Default, Debug, PartialEq)]
    struct Placed(Vec<(char, Option<usize>)>);

    impl Sink for Placed {
        fn put(&mut self, out: &str, at: Option<usize>) {
            self.0.extend(out.chars().map(|c| (c, at)));
        }
        fn copy(&mut self, text: &str, from: usize, to: usize) {
            let places = text[from..to].char_indices();
            self.0.extend(places.map(|(at, c)| (c, Some(from + at))));
        }
    }

    #[test]
    fn stretches_compose_as_the_whole_does() {
        // Letters, marks of several classes, characters that decompose, both kinds of Hangul, and characters that
        // stay.
        let letters: Vec<char> =
            "ae \u{300}\u{301}\u{323}\u{345}\u{344}é\u{212B}\u{1100}\u{1161}\u{11A8}가각한中\u{F900}\u{FB1D}क\u{93C}\u{958}\u{9C7}\u{9BE}😀\u{1D15E}"
                .chars()
                .collect();
        let mut random = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..random >> 60 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(letters[(random >> 33) as usize % letters.len()]);
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (mut whole, mut parts) = (Placed::default(), Placed::default());
            transform(&text, 0, text.nfc(), &mut whole);
            compose(&text, &mut parts);
            assert_eq!(parts, whole, "{text:?}");
        }
    }
}
