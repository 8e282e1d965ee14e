//! Pieces of SentencePiece-style text: a new one at each word marker, which here is a space.

use super::Pieces;
use crate::Result;

/// Where words may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordCut {
    /// Before a space that follows something else: the text is one word to the reference, and this
    /// is where no merge can cross (checked when the vocabulary is loaded).
    Runs,
    /// Before every space, as a splitting Metaspace pre-tokenizer does.
    Each,
    /// Nowhere.
    Never,
}

/// The words of a text.
pub(crate) struct Words<'a> {
    text: &'a [u8],
    at: usize,
    cut: WordCut,
}

impl<'a> Words<'a> {
    pub(crate) fn new(text: &'a str, cut: WordCut) -> Self {
        Self { text: text.as_bytes(), at: 0, cut }
    }

    fn end_of_word(&self) -> usize {
        let rest = &self.text[self.at..];
        let end = match self.cut {
            WordCut::Never => None,
            WordCut::Each => memchr::memchr(b' ', &rest[1..]).map(|at| at + 1),
            WordCut::Runs => {
                let word = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
                memchr::memchr(b' ', &rest[word..]).map(|at| at + word)
            }
        };
        end.map_or(self.text.len(), |end| self.at + end)
    }
}

impl Pieces for Words<'_> {
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        let mut count = 0;
        while count < ends.len() && self.at < self.text.len() {
            self.at = self.end_of_word();
            ends[count] = self.at as u32;
            count += 1;
        }
        Ok(count)
    }
}
