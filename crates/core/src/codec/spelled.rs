//! Models that see the printable spelling of bytes instead of the bytes themselves.
//!
//! Two things can only be done in the characters of [`crate::spelling`]: splits that come after the step that writes
//! them (Falcon cuts at digits there, and `²` counts as one although it is half of another character), and a suffix
//! on the last character of a word (CLIP's `</w>`).

use std::sync::LazyLock;

use crate::bpe::Writer;
use crate::scan::{ScanSpec, Scanner};
use crate::spelling::{byte_of, char_of};
use crate::{Error, Result};

/// The private plane that holds characters ending a word with a suffix, far from the spelling.
const SUFFIXED: u32 = 0xF0000;
/// Bytes of words that are encoded together.
const BATCH: usize = 64 << 10;

/// Splits before and after the rewriting, and whether words have a suffix.
#[derive(Debug)]
pub struct Spelled {
    /// Cuts the text.
    pub(super) before: Scanner,
    /// Cuts the spelling of each piece, if there is such a step, and the bytes of which a piece has one that is cut.
    after: Option<(Scanner, Vec<bool>)>,
    /// Whether the last character of a word is the one with the suffix.
    suffix: bool,
}

/// Spelled words that are encoded together: one by one, each would wait for the cache.
#[derive(Default)]
struct Words {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Words {
    /// Appends the ids of the words if there are more than `most` bytes of them.
    fn write(&mut self, most: usize, out: &mut Writer) -> Result<()> {
        if self.text.len() > most {
            out.encode_pieces(&self.ends[..], checked(&self.text)?)?;
            self.text.clear();
            self.ends.clear();
        }
        Ok(())
    }
}

impl Spelled {
    /// Cuts texts by one chain of steps, and the spelling of their pieces by another, if there is one.
    pub fn new(before: Scanner, after: Option<&ScanSpec>, suffix: bool) -> Result<Self> {
        let chars: Vec<char> = (0..=255).map(char_of).collect();
        let after = after.map(|spec| Ok((Scanner::new(spec)?, spec.may_cut(&chars))));
        Ok(Self { before, after: after.transpose()?, suffix })
    }

    /// Appends the ids of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Writer) -> Result<()> {
        let (mut words, mut outcome) = (Words::default(), Ok(()));
        self.before.for_each_piece(text, |piece| {
            if outcome.is_ok() {
                outcome = self.add_piece(piece, &mut words).and_then(|()| words.write(BATCH, out));
            }
        })?;
        outcome.and_then(|()| words.write(0, out))
    }

    fn add_piece(&self, piece: &[u8], words: &mut Words) -> Result<()> {
        let start = words.text.len();
        spell(piece, &mut words.text);
        if !self.suffix && !self.may_cut(piece) {
            words.ends.push(words.text.len() as u32);
            return Ok(());
        }
        let spelled = words.text.split_off(start);
        self.for_each_word(piece, checked(&spelled)?, |word| self.add(word, words))
    }

    fn may_cut(&self, piece: &[u8]) -> bool {
        let after = self.after.as_ref();
        after.is_some_and(|(_, cut)| piece.iter().any(|&byte| cut[usize::from(byte)]))
    }

    /// Calls `visit` with each word of a piece, given its spelling.
    pub(super) fn for_each_word<'t>(
        &self,
        piece: &[u8],
        spelled: &'t str,
        mut visit: impl FnMut(&'t str),
    ) -> Result<()> {
        match &self.after {
            Some((after, _)) if self.may_cut(piece) => {
                let start = spelled.as_ptr() as usize;
                after.for_each_piece(spelled, |word| {
                    let at = word.as_ptr() as usize - start;
                    visit(&spelled[at..at + word.len()]);
                })
            }
            _ => {
                visit(spelled);
                Ok(())
            }
        }
    }

    /// Adds a word in the characters of the model.
    fn add(&self, word: &str, words: &mut Words) {
        let last = word.chars().next_back().filter(|_| self.suffix);
        let ended = last.and_then(|last| self.unit(last, true));
        let kept = word.len() - last.map_or(0, char::len_utf8);
        words.text.extend_from_slice(&word.as_bytes()[..kept]);
        let ended = ended.map(|ended| ended.to_string());
        words.text.extend(ended.iter().flat_map(|ended| ended.bytes()));
        words.ends.push(words.text.len() as u32);
    }

    /// Appends the ids of one word of the spelling.
    pub(super) fn encode_word(&self, word: &str, out: &mut Writer) -> Result<()> {
        let mut words = Words::default();
        self.add(word, &mut words);
        words.write(0, out)
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

/// Appends the spelling of bytes: two bytes are written for each, and counted as far as they belong to it.
fn spell(bytes: &[u8], out: &mut Vec<u8>) {
    let mut end = out.len();
    out.resize(end + 2 * bytes.len(), 0);
    for &byte in bytes {
        let (spelled, width) = SPELLED[usize::from(byte)];
        out[end..end + 2].copy_from_slice(&spelled);
        end += width;
    }
    out.truncate(end);
}

/// The UTF-8 of the character of each byte, and its length.
static SPELLED: LazyLock<[([u8; 2], usize); 256]> = LazyLock::new(|| {
    std::array::from_fn(|byte| {
        let mut spelled = [0; 2];
        let width = char_of(byte as u8).encode_utf8(&mut spelled).len();
        (spelled, width)
    })
});

fn checked(spelled: &[u8]) -> Result<&str> {
    simdutf8::basic::from_utf8(spelled)
        .map_err(|_| Error::Internal("bytes were not spelled as text".to_owned()))
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
