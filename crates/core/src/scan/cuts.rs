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
            Engine::Known(_) => Places::SpacesAndLines,
            Engine::Chain(_) => Places::None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{names, ScanSpec, Step};

    fn scanner(name: &str) -> Scanner {
        Scanner::new(&ScanSpec::from_choice(name).unwrap()).unwrap()
    }

    fn all(cuts: &SafeCuts, text: &str) -> Vec<usize> {
        let (text, mut from) = (text.as_bytes(), 0);
        let next = || {
            let at = cuts.next(text, from, text.len())?;
            from = at + 1;
            Some(at)
        };
        std::iter::from_fn(next).collect()
    }

    fn pieces(scanner: &Scanner, text: &str) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let scanned = scanner.for_each_piece(text, |piece| pieces.push(piece.to_vec()));
        assert!(scanned.is_ok());
        pieces
    }

    #[test]
    fn cuts_follow_letters_or_lone_newlines() {
        let cuts = SafeCuts::of_scanner(&scanner("gpt2"), Vec::new());
        let text = "ab cd  ef. 1\nxy\n\nz。\n字 !\n";
        assert_eq!(all(&cuts, text), [2, 5, 12, 13, 15, 22, 25]);
        let spaces = SafeCuts::before_spaces(Vec::new());
        assert_eq!(all(&spaces, text), [2, 5, 25]);
        let chain = ScanSpec::Chain(vec![Step::matches("a+")]);
        let none = SafeCuts::of_scanner(&Scanner::new(&chain).unwrap(), Vec::new());
        assert!(!none.any() && all(&none, text).is_empty());
        assert_eq!(none.last(text.as_bytes()), None);
    }

    #[test]
    fn parts_have_the_pieces_of_the_whole_wherever_they_are_cut() {
        let lively: Vec<char> = "aZ5 \n\r\t.'s!/中字·가한é\u{301}\u{3000}\u{a0}٣😀"
            .chars()
            .collect();
        let mut state = 7u64;
        for name in names() {
            let (scanner, mut found) = (scanner(name), 0);
            let cuts = SafeCuts::of_scanner(&scanner, Vec::new());
            for _ in 0..2000 {
                let mut draw = || {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) as usize
                };
                let text: String = (0..draw() % 24)
                    .map(|_| lively[draw() % lively.len()])
                    .collect();
                let whole = pieces(&scanner, &text);
                for at in all(&cuts, &text) {
                    let parts = [&text[..at], &text[at..]].map(|part| pieces(&scanner, part));
                    assert_eq!(parts.concat(), whole, "{name}: {text:?} at {at}");
                    found += 1;
                }
            }
            assert!(found > 300, "{name}: {found}");
        }
    }

    #[test]
    fn no_cut_touches_a_string_that_must_stay_whole() {
        let cuts = |whole: &str| SafeCuts::of_scanner(&scanner("gpt2"), vec![whole.into()]);
        assert_eq!(cuts("b c").next(b"ab cd", 0, 5), None);
        assert_eq!(cuts("ab").next(b"ab cd", 0, 5), None);
        assert_eq!(cuts("b cd").next(b"ab ce", 0, 5), Some(2));
    }

    #[test]
    fn the_last_cut_keeps_the_context_that_may_decide_it() {
        let cuts = SafeCuts::of_scanner(&scanner("gpt2"), Vec::new());
        assert_eq!(cuts.last(b"ab cd ef gh ij"), Some(8));
        assert_eq!(cuts.last(b"ab cd"), None);
    }
}
