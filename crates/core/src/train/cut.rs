//! Where a text may be cut without changing its pieces, so that threads can share one document.
//!
//! In every family a piece that begins with a letter or a number ends before white space, and nothing
//! looks back over it. So the place between a letter or number and the space or newline after it is
//! always the start of a piece. A general pattern promises nothing: such a text stays whole.

/// The first safe cut at or after `from`, if there is one.
pub fn safe_cut(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from.max(1);
    while let Some(found) = memchr::memchr2(b' ', b'\n', text.get(at..)?) {
        at += found;
        if ends_with_letter(&text[..at]) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The last safe cut before `to`, if there is one.
pub fn last_safe_cut(text: &[u8], to: usize) -> Option<usize> {
    let mut end = to.min(text.len());
    while let Some(at) = memchr::memrchr2(b' ', b'\n', &text[..end]) {
        if ends_with_letter(&text[..at]) {
            return Some(at);
        }
        end = at;
    }
    None
}

/// True if the last character is surely a letter or number in every Unicode version: ASCII ones, and the
/// blocks U+5000..U+8FFF (Han) and U+B000..U+CFFF (Hangul), which have been full since Unicode 2.
fn ends_with_letter(text: &[u8]) -> bool {
    match *text {
        [.., lead, _, last] if last >= 0x80 => matches!(lead, 0xE5..=0xE8 | 0xEB | 0xEC),
        [.., last] => last.is_ascii_alphanumeric(),
        [] => false,
    }
}

/// Cuts `text` into stretches of about `size` bytes at safe places; their ends, the last one included.
pub fn stretches(text: &[u8], size: usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut start = 0;
    while text.len() - start > size {
        match safe_cut(text, start + size) {
            Some(cut) => {
                ends.push(cut);
                start = cut;
            }
            None => break,
        }
    }
    ends.push(text.len());
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_cut_is_the_last_of_all_cuts() {
        let text = "one two, three 한국 四 \n five".as_bytes();
        for to in 0..=text.len() {
            let mut all = (1..to).filter(|&at| safe_cut(text, at) == Some(at));
            assert_eq!(last_safe_cut(text, to), all.next_back(), "{to}");
        }
    }

    use crate::scan::{ScanSpec, Scanner};

    fn pieces(scanner: &Scanner, text: &str) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        let scanned = scanner.for_each_piece(text, |piece| pieces.push(piece.to_vec()));
        assert!(scanned.is_ok());
        pieces
    }

    #[test]
    fn a_cut_text_has_the_pieces_of_the_whole() {
        let text = "It's 42  words,\n\n 한국어 문장입니다.\n中文 没有\u{3000}空格。\n x\u{a0}y 7 \t\nEnd's  ";
        for name in crate::scan::names() {
            let spec = ScanSpec::from_choice(name).expect("listed");
            let scanner = Scanner::new(&spec).expect("compiles");
            for size in 1..text.len() {
                let mut start = 0;
                let mut joined = Vec::new();
                for end in stretches(text.as_bytes(), size) {
                    joined.extend(pieces(&scanner, &text[start..end]));
                    start = end;
                }
                assert_eq!(joined, pieces(&scanner, text), "{name} at {size}");
            }
        }
    }
}
