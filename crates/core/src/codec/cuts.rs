//! Where a text may be cut so that the ids of its parts, one after the other, are the ids of the whole.
//!
//! This is what lets one large document be encoded by several threads, and a stream in bounded memory.
//! Two kinds of places are proven; a codec says at load time which of them hold for it:
//!
//! - before a single space between two ASCII letters: every hand-written scanner starts a piece there, and
//!   no token of a SentencePiece-style model may hold a letter before a space (checked on the vocabulary);
//! - after a lone newline that follows something other than white space and is followed by an ASCII
//!   letter or a CJK character: no piece of those scanners goes on past such a newline.
//!
//! No added token may touch the place, whatever its flags.

use memchr::memmem;

/// The places that are proven for one codec.
#[derive(Debug, Clone, Default)]
pub struct Cuts {
    /// Before a space between two ASCII letters.
    pub before_space: bool,
    /// After a lone newline before a letter.
    pub after_newline: bool,
    /// Every added token's string; a cut may not touch one.
    pub added: Vec<String>,
}

impl Cuts {
    /// Whether any place is proven at all.
    pub fn any(&self) -> bool {
        self.before_space || self.after_newline
    }

    /// The first cut at or after `from`, before `to`.
    pub fn next(&self, text: &str, from: usize, to: usize) -> Option<usize> {
        (from.max(1)..to.min(text.len())).find(|&at| self.is_cut(text, at))
    }

    /// How many bytes on each side of a place decide whether it is a cut.
    pub fn context(&self) -> usize {
        self.added.iter().map(String::len).max().unwrap_or(0) + 4
    }

    /// The last cut of a text of which more may follow.
    pub fn last(&self, text: &str) -> Option<usize> {
        let end = text.len().saturating_sub(self.context());
        (1..end).rev().find(|&at| self.is_cut(text, at))
    }

    fn is_cut(&self, text: &str, at: usize) -> bool {
        let bytes = text.as_bytes();
        let here = match (bytes[at], bytes[at - 1]) {
            (b' ', before) if self.before_space => {
                before.is_ascii_alphabetic()
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
            }
            (after, b'\n') if self.after_newline && at >= 2 => {
                !ends_with_space(&text[..at - 1])
                    && (after.is_ascii_alphabetic() || starts_with_cjk(&text[at..]))
            }
            _ => false,
        };
        here && self.added.iter().all(|token| !touches(text, token, at))
    }
}

fn ends_with_space(text: &str) -> bool {
    text.chars().next_back().is_none_or(char::is_whitespace)
}

/// Han, kana and Hangul syllables: letters in every Unicode version that any scanner uses.
fn starts_with_cjk(text: &str) -> bool {
    text.chars().next().is_some_and(|c| {
        matches!(c, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7A3}')
    })
}

fn touches(text: &str, token: &str, at: usize) -> bool {
    let low = at.saturating_sub(token.len());
    let high = (at + token.len()).min(text.len());
    memmem::find(&text.as_bytes()[low..high], token.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(added: &[&str]) -> Cuts {
        Cuts {
            before_space: true,
            after_newline: true,
            added: added.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn cuts_are_before_single_spaces_and_after_lone_newlines() {
        let text = "ab cd  ef 1\nxy\n\nz。\n中";
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = cuts(&[]).next(text, from, text.len()) {
            found.push(at);
            from = at + 1;
        }
        assert_eq!(found, [2, 12, 21]);
    }

    #[test]
    fn no_cut_touches_an_added_token() {
        assert_eq!(cuts(&["b c"]).next("ab cd", 0, 5), None);
        assert_eq!(cuts(&["ab"]).next("ab cd", 0, 5), None);
        assert_eq!(cuts(&["b cd"]).next("ab ce", 0, 5), Some(2));
    }

    #[test]
    fn the_last_cut_keeps_the_context_that_may_decide_it() {
        assert_eq!(cuts(&[]).last("ab cd ef gh ij"), Some(8));
        assert_eq!(cuts(&[]).last("ab cd"), None);
    }
}
