//! Where a text may be cut so that the pieces of its parts, one after the other, are the pieces of the whole.
//!
//! This is what lets threads share one large document, and lets the encoder and the trainer read it in bounded
//! memory. Two kinds of places are proven for every family:
//!
//! - before a space or newline that follows a letter or a number: a piece that has reached this far ends there, and
//!   none looks back across it;
//! - after a lone newline that follows something other than white space and is followed by a letter: no piece
//!   continues past such a newline.
//!
//! A general pattern guarantees nothing. Text without a pattern is cut only before spaces, where its owner has proven
//! that no token spans a letter and the space after it.

use memchr::memmem;

use super::{Engine, Scanner};

/// The places that are proven safe for one tokenizer or pattern.
#[derive(Debug, Clone, Default)]
pub struct SafeCuts {
    places: Places,
    /// Strings that no cut may touch: they are matched before the text is split into pieces.
    whole: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Places {
    #[default]
    None,
    Spaces,
    SpacesAndLines,
}

impl SafeCuts {
    /// The cuts of texts that `scanner` turns into pieces, none of which touches one of `whole`.
    pub fn of_scanner(scanner: &Scanner, whole: Vec<String>) -> Self {
        let places = match scanner.engine {
            Engine::Known(..) => Places::SpacesAndLines,
            Engine::Automaton(_) | Engine::Chain(_) => Places::None,
        };
        Self { places, whole }
    }

    /// Cuts between letters and the spaces after them, none of which touches one of `whole`.
    pub fn before_spaces(whole: Vec<String>) -> Self {
        let places = Places::Spaces;
        Self { places, whole }
    }

    /// Whether any place is proven safe at all.
    pub fn any(&self) -> bool {
        self.places != Places::None
    }

    /// How many bytes on each side of a place decide whether it is a cut.
    pub fn context(&self) -> usize {
        self.whole.iter().map(String::len).max().unwrap_or(0) + 4
    }

    /// The first cut of `text`, which is UTF-8, at or after `from` and before `to`.
    pub fn next(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        let to = if self.any() { to.min(text.len()) } else { 0 };
        (from.max(1)..to).find(|&at| self.is_cut(text, at))
    }

    /// The last cut of a text that may continue.
    pub fn last(&self, text: &[u8]) -> Option<usize> {
        let end = text.len().saturating_sub(self.context());
        let end = if self.any() { end } else { 0 };
        (1..end).rev().find(|&at| self.is_cut(text, at))
    }

    fn is_cut(&self, text: &[u8], at: usize) -> bool {
        let lines = self.places == Places::SpacesAndLines;
        let (before, after) = text.split_at(at);
        let here = match (before, after) {
            ([.., last], [b' ', ..]) if *last != b'\n' => ends_with_letter(before),
            ([.., last], [b'\n', ..]) if *last != b'\n' => lines && ends_with_letter(before),
            ([line @ .., b'\n'], _) => lines && !ends_with_space(line) && starts_with_letter(after),
            _ => false,
        };
        here && self.whole.iter().all(|token| !touches(text, token, at))
    }
}

/// Whether the last character is certain to be a letter or number in every Unicode version: ASCII ones, and the
/// blocks U+5000..U+8FFF (Han) and U+B000..U+CFFF (Hangul), which have been full since Unicode 2.
fn ends_with_letter(text: &[u8]) -> bool {
    match *text {
        [.., lead, _, last] if last >= 0x80 => matches!(lead, 0xE5..=0xE8 | 0xEB | 0xEC),
        [.., last] => last.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// ASCII, kana, Han and Hangul syllables: letters in every Unicode version that any scanner uses.
fn starts_with_letter(text: &[u8]) -> bool {
    match first_char(text) {
        Some(character) => matches!(
            character,
            'A'..='Z' | 'a'..='z' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7A3}'
        ),
        None => false,
    }
}

/// Whether the last character is white space, or there is none.
fn ends_with_space(text: &[u8]) -> bool {
    let start = text.iter().rposition(|byte| byte & 0xC0 != 0x80);
    start.is_none_or(|start| first_char(&text[start..]).is_none_or(char::is_whitespace))
}

/// Looks at no more than four bytes: what follows may be a gigabyte.
fn first_char(text: &[u8]) -> Option<char> {
    let start = text[..text.len().min(4)].utf8_chunks().next()?;
    start.valid().chars().next()
}

fn touches(text: &[u8], token: &str, at: usize) -> bool {
    let low = at.saturating_sub(token.len());
    let high = (at + token.len()).min(text.len());
    memmem::find(&text[low..high], token.as_bytes()).is_some()
}
