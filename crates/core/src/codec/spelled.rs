//! Models that see the printable spelling of bytes instead of the bytes themselves.
//!
//! Two things can only be done in the characters of [`crate::spelling`]: splits that come after the step that writes
//! them (Falcon cuts at digits there, and `²` counts as one although it is half of another character), and a suffix
//! on the last character of a word (CLIP's `</w>`).

use crate::bpe::{WordCut, Writer};
use crate::scan::Scanner;
use crate::spelling::{byte_of, char_of};
use crate::Result;

/// The private plane that holds characters ending a word with a suffix, far from the spelling.
const SUFFIXED: u32 = 0xF0000;

/// Splits before and after the rewriting, and whether words have a suffix.
#[derive(Debug)]
pub struct Spelled {
    /// Cuts the text.
    pub before: Scanner,
    /// Cuts the spelling of each piece, if there is such a step.
    pub after: Option<Scanner>,
    /// Whether the last character of a word is the one with the suffix.
    pub suffix: bool,
}

impl Spelled {
    /// Appends the ids of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Writer) -> Result<()> {
        let mut outcome = Ok(());
        let mut word = String::new();
        self.before.for_each_piece(text, |piece| {
            if outcome.is_ok() {
                word.clear();
                word.extend(piece.iter().map(|&byte| char_of(byte)));
                outcome = self.encode_word(&word, out);
            }
        })?;
        outcome
    }

    fn encode_word(&self, word: &str, out: &mut Writer) -> Result<()> {
        let Some(after) = &self.after else {
            return self.encode_piece(word, out);
        };
        let mut outcome = Ok(());
        let start = word.as_ptr() as usize;
        after.for_each_piece(word, |piece| {
            if outcome.is_ok() {
                let at = piece.as_ptr() as usize - start;
                outcome = self.encode_piece(&word[at..at + piece.len()], out);
            }
        })?;
        outcome
    }

    /// Appends the ids of one word of the spelling.
    pub(super) fn encode_piece(&self, piece: &str, out: &mut Writer) -> Result<()> {
        let last = piece.chars().next_back().filter(|_| self.suffix);
        let Some(last) = last else {
            return out.encode_words(piece, WordCut::Runs);
        };
        let mut ended = piece[..piece.len() - last.len_utf8()].to_owned();
        ended.extend(self.unit(last, true));
        out.encode_words(&ended, WordCut::Runs)
    }

    /// Returns the character by which the model knows a character of a word.
    pub(super) fn unit(&self, c: char, last: bool) -> Option<char> {
        if last && self.suffix {
            char::from_u32(SUFFIXED + c as u32)
        } else {
            Some(c)
        }
    }
}

/// Returns a token without the mark of its suffix.
pub(super) fn plain(token: &str) -> String {
    let unmarked = |c: char| {
        let before = (c as u32).checked_sub(SUFFIXED).and_then(char::from_u32);
        before.unwrap_or(c)
    };
    token.chars().map(unmarked).collect()
}

/// Returns a token in printable characters; the last one of a word with the suffix is kept in a private plane.
pub fn spell_token(token: &[u8], suffix: &str) -> String {
    let mut spelled: String = token.iter().map(|&byte| char_of(byte)).collect();
    let word = spelled.strip_suffix(suffix).filter(|_| !suffix.is_empty());
    if let Some(last) = word.and_then(|word| word.chars().next_back()) {
        spelled.truncate(spelled.len() - suffix.len() - last.len_utf8());
        spelled.extend(char::from_u32(SUFFIXED + last as u32));
    }
    spelled
}

/// Returns the bytes that a spelled token represents, without its suffix.
pub(super) fn bytes_of(token: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(token);
    plain(&text).chars().filter_map(byte_of).collect()
}
