//! Places without the white space at the ends of tokens: `trim_offsets` of HF's post-processors.

use super::offsets::Placed;
use super::spelled::plain;
use super::{Codec, Splitter};
use crate::spelling::char_of;

/// One post-processor that trims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// One space at the start of the text stays, since the pre-tokenizer may have added it.
    pub prefix: bool,
    /// The number of ids that the template has put before the text by then.
    pub shift: usize,
}

/// The number of white-space characters at the start and at the end of a token.
pub(super) type Blanks = (usize, usize);

impl Codec {
    /// Trims the places of a text's own tokens, which are counted in characters.
    pub(super) fn trim(&self, tokens: &mut [Placed], template: bool) {
        for trim in &self.trims {
            let shift = if template { trim.shift } else { 0 };
            for (at, token) in tokens.iter_mut().enumerate() {
                let (mut leading, trailing) = self.blanks(token);
                if (at + shift == 0 || token.start == 0) && trim.prefix && leading == 1 {
                    leading = 0;
                }
                token.start = (token.start + leading).min(token.end);
                if token.end >= trailing {
                    token.end = (token.end - trailing).max(token.start);
                }
            }
        }
    }

    /// Determined by the string that HF has for a token, which is not the text that it spells.
    fn blanks(&self, token: &Placed) -> Blanks {
        if let Some(blanks) = token.blanks {
            return blanks;
        }
        let bytes = self.bpe.vocabulary().bytes_of(token.id).unwrap_or_default();
        match &self.splitter {
            Splitter::Scan(_) => {
                let spelled: String = bytes.iter().map(|&byte| char_of(byte)).collect();
                blanks_of(&spelled)
            }
            Splitter::Spelled(_) => {
                let text = String::from_utf8_lossy(bytes);
                let plain = plain(&text);
                let (leading, trailing) = blanks_of(&plain);
                (leading, if plain == text { trailing } else { 0 })
            }
            Splitter::Whole | Splitter::Words => {
                let text = String::from_utf8_lossy(bytes);
                let mut chars = text.chars();
                let alone = chars.next().filter(|_| chars.next().is_none());
                if alone.is_some_and(|c| !self.bpe.knows(c)) {
                    // A byte token, which HF spells <0x0A>.
                    return (0, 0);
                }
                // The space is the word marker.
                ends(&text, |c| c != ' ' && is_blank(c))
            }
        }
    }
}

fn is_blank(c: char) -> bool {
    c == char_of(b' ') || c.is_whitespace()
}

/// Returns the white space at the ends of a token, as HF sees it.
pub(super) fn blanks_of(token: &str) -> Blanks {
    ends(token, is_blank)
}

fn ends(text: &str, is_blank: impl Fn(char) -> bool) -> Blanks {
    (
        text.chars().take_while(|&c| is_blank(c)).count(),
        text.chars().rev().take_while(|&c| is_blank(c)).count(),
    )
}
