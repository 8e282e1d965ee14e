//! A cursor over JSON text that a stricter parser sees as well: it finds values, and reads strings and ids.

use crate::jsonl::{find_special, unescape};
use crate::records::Policy;

/// Containers inside each other beyond this are left to the careful reader.
const DEEPEST: usize = 64;

/// Where we are in a text.
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline(always)]
    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Goes past `byte`, and the white space on both sides of it.
    #[inline(always)]
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        if self.peek() != Some(byte) {
            return None;
        }
        self.at += 1;
        self.space();
        Some(())
    }

    /// After an element: `true` if a comma and another one follow, `false` at the `end` bracket.
    #[inline(always)]
    pub(super) fn more(&mut self, end: u8) -> Option<bool> {
        self.space();
        let found = self.peek()?;
        self.at += 1;
        if found == end {
            return Some(false);
        }
        self.space();
        (found == b',').then_some(true)
    }

    /// The text between the quotes of a string, escapes and all.
    #[inline(always)]
    pub(super) fn raw_string(&mut self) -> Option<&'a [u8]> {
        if self.peek() != Some(b'"') {
            return None;
        }
        let start = self.at + 1;
        self.at = start;
        loop {
            self.at += find_special(&self.text[self.at..]);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Some(&self.text[start..self.at - 1]);
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.text.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
            b'u' => {
                let digits = self.text.get(self.at + 2..self.at + 6)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                self.at += 6;
            }
            _ => return None,
        }
        Some(())
    }

    /// Appends the characters of a string; `None` where one of them is half a surrogate pair.
    #[inline(always)]
    pub(super) fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let raw = self.raw_string()?;
        if memchr::memchr(b'\\', raw).is_none() {
            out.extend_from_slice(raw);
            return Some(());
        }
        unescape(raw, Policy::Refuse, out).ok().map(|_| ())
    }

    /// A number without sign, point or exponent.
    #[inline(always)]
    pub(super) fn id(&mut self, largest: u32) -> Option<u32> {
        let start = self.at;
        let mut number = 0u32;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number
                .checked_mul(10)?
                .checked_add(u32::from(digit - b'0'))?;
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        let padded = digits.len() > 1 && digits[0] == b'0';
        let goes_on = matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        (!digits.is_empty() && !padded && !goes_on && number <= largest).then_some(number)
    }

    /// Goes past any value. What is wrong inside one is left for the parser that reads it later.
    pub(super) fn skip(&mut self) -> Option<()> {
        let mut depth = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.raw_string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                    if depth > DEEPEST {
                        return None;
                    }
                    continue;
                }
                b'}' | b']' if depth > 0 => {
                    self.at += 1;
                    depth -= 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => self.word(),
                _ => return None,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn word(&mut self) {
        while matches!(
            self.peek(),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
        ) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(text: &str) -> Cursor<'_> {
        Cursor {
            text: text.as_bytes(),
            at: 0,
        }
    }

    #[test]
    fn skip_ends_where_the_value_ends() {
        for value in [
            "1",
            "-1.5e+3",
            "null",
            r#""a\"]b""#,
            "[]",
            r#"{"a": [1, {"b": "}"}]}"#,
        ] {
            let text = format!("{value}, 2");
            let mut cursor = cursor(&text);
            assert_eq!(cursor.skip(), Some(()), "{value}");
            assert_eq!(cursor.at, value.len(), "{value}");
        }
        for broken in ["", "]", "[1", "\"a", "\u{1}"] {
            assert_eq!(cursor(broken).skip(), None, "{broken}");
        }
    }

    #[test]
    fn strings_are_unescaped_and_ids_are_plain() {
        let mut out = Vec::new();
        assert_eq!(cursor(r#""a\u0120\n""#).string(&mut out), Some(()));
        assert_eq!(out, "aĠ\n".as_bytes());
        assert_eq!(cursor(r#""\ud800""#).string(&mut out), None);
        assert_eq!(cursor("17,").id(100), Some(17));
        for odd in ["", "x", "-1", "01", "1.0", "1e2", "101", "99999999999"] {
            assert_eq!(cursor(odd).id(100), None, "{odd}");
        }
    }
}
