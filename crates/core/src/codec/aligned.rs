//! A text that remembers where it came from, by the rules of Hugging Face.
//!
//! Every byte maps to a range of the original. A step that rewrites a text states, for each thing it writes, which
//! byte of its input that comes from, so ranges are only ever copied, never joined: a letter composed of three
//! characters maps to the first of them, as in HF.

use super::normalize::{Sink, Step};
use crate::Result;

/// A text and, for each of its bytes, the range of the original that it comes from.
#[derive(Debug, Clone, Default)]
pub struct Aligned {
    /// The text as it is now.
    pub text: String,
    /// One `(start, end)` for each byte of `text`.
    pub origin: Vec<(usize, usize)>,
}

impl Aligned {
    /// Creates a text that starts at byte `base` of the original and has not been changed.
    pub fn new(text: &str, base: usize) -> Self {
        let mut origin = Vec::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            let place = (base + at, base + at + c.len_utf8());
            origin.resize(at + c.len_utf8(), place);
        }
        Self { text: text.to_owned(), origin }
    }

    /// Returns the range of the original that `start..end` of the text comes from.
    pub fn original(&self, start: usize, end: usize) -> (usize, usize) {
        range(&self.origin[start..end])
    }

    /// That part as an aligned text of its own.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        Self { text: self.text[start..end].to_owned(), origin: self.origin[start..end].to_vec() }
    }

    /// Returns the text after these steps.
    pub fn normalize(mut self, steps: &[Step]) -> Result<Self> {
        for step in steps {
            let mut draft = Draft { before: &self, after: Self::default() };
            step.rewrite(&self.text, &mut draft)?;
            self = draft.after;
        }
        Ok(self)
    }
}

/// Returns the range from the start of the first to the end of the last.
pub fn range(places: &[(usize, usize)]) -> (usize, usize) {
    match (places.first(), places.last()) {
        (Some(first), Some(last)) => (first.0, last.1),
        _ => (0, 0),
    }
}

/// The text that a step is writing.
struct Draft<'a> {
    before: &'a Aligned,
    after: Aligned,
}

impl Sink for Draft<'_> {
    fn put(&mut self, out: &str, at: Option<usize>) {
        let place = at.and_then(|at| self.before.origin.get(at));
        self.after.text.push_str(out);
        let length = self.after.text.len();
        self.after.origin.resize(length, place.copied().unwrap_or((0, 0)));
    }

    fn copy(&mut self, text: &str, from: usize, to: usize) {
        self.after.text.push_str(&text[from..to]);
        self.after.origin.extend_from_slice(&self.before.origin[from..to]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_aligned() {
        let steps = [Step::Prepend("▁".into()), Step::Replace(" ".into(), "▁".into())];
        let aligned = Aligned::new("a b", 10).normalize(&steps).unwrap();
        assert_eq!(aligned.text, "▁a▁b");
        assert_eq!(aligned.original(0, 4), (10, 11));
        assert_eq!(aligned.original(4, 8), (11, 13));
    }

    #[test]
    fn a_composition_stands_for_its_first_character() {
        let aligned = Aligned::new("ae\u{301}x", 0).normalize(&[Step::Nfc]).unwrap();
        assert_eq!(aligned.text, "aéx");
        assert_eq!(aligned.origin, [(0, 1), (1, 2), (1, 2), (4, 5)]);
    }
}
