//! A line that is too long to hold, read in windows: its outline is the line without the middle of its long strings.
//!
//! What is left out is valid by itself (whole characters, whole escapes), and one letter replaces it. So the
//! outline is valid JSON exactly if the line is, is refused for the same reason if not, and says where in the line the
//! text is, which is then read again and unescaped in parts.

use super::fields::{Fields, TemplatePart};
use super::lines::read;
use super::parse::{parse, Value};
use super::strings::{character_at, escape_at, find_special, unescape, Escape};
use crate::records::{Batch, Policy};

/// Enough of a string for every key, id and label.
const KEPT: usize = 4096;
/// No escape continues with it, so that a bad escape before it stays bad.
const STANDS_FOR_MORE: u8 = b'x';

/// The outline of one line, as far as it was read.
#[derive(Debug)]
pub struct Outline {
    /// How many bytes of a string are kept.
    most: usize,
    bytes: Vec<u8>,
    gaps: Vec<Gap>,
    /// How much of the current string was kept, if we are inside one.
    inside: Option<usize>,
}

/// One letter of the outline that replaces some bytes of the line.
#[derive(Debug)]
struct Gap {
    at: usize,
    length: usize,
}

/// What a text is made of: literals, and spans of the line.
#[derive(Debug, PartialEq, Eq)]
pub enum TextPart {
    /// Characters of the template.
    Literal(Vec<u8>),
    /// The body of a JSON string, from a byte of the line up to another.
    Span(usize, usize),
}

impl Outline {
    /// The outline of a line that is read for these fields.
    pub fn new(fields: &Fields) -> Self {
        Self::with_limit(KEPT, fields)
    }

    /// Keeps `most` bytes of a string, and at least every wanted key, each character of which may be an escape.
    fn with_limit(most: usize, fields: &Fields) -> Self {
        let keys = fields.paths.iter().flatten().map(String::len);
        Self {
            most: keys.max().unwrap_or(0).saturating_mul(6).max(most),
            bytes: Vec::new(),
            gaps: Vec::new(),
            inside: None,
        }
    }

    /// Takes more of the line and returns how many bytes were used; the caller passes the rest again with what
    /// follows it. `last` says that the line ends here.
    pub fn feed(&mut self, window: &[u8], last: bool) -> usize {
        let mut used = 0;
        while used < window.len() {
            let rest = &window[used..];
            let Err(fault) = simdutf8::compat::from_utf8(rest) else {
                return used + self.walk(rest, last);
            };
            let (good, bad) = (fault.valid_up_to(), fault.error_len());
            if bad.is_none() && !last {
                return used + self.walk(&rest[..good], false);
            }
            self.walk(&rest[..good], true);
            let end = bad.map_or(rest.len(), |length| good + length);
            self.keep(&rest[good..end]);
            used += end;
        }
        used
    }

    /// How much memory the outline takes: little, unless the line is long for another reason than long strings.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.gaps.len() * size_of::<Gap>()
    }

    /// The record without its text: the document's columns, or why it is refused; and what the text is made of.
    /// If there is a document and the latter is None, the line must be read as a whole.
    pub fn finish(self, fields: &Fields) -> (Batch, Option<Vec<TextPart>>) {
        let mut batch = read(&self.bytes, fields);
        for reject in &mut batch.rejects {
            reject.byte = self.place(reject.byte);
        }
        // Repairing the bytes of a line moves its places.
        let repairs = std::str::from_utf8(&self.bytes).is_err();
        let parts = if repairs { None } else { self.parts(fields) };
        (batch, parts)
    }

    fn parts(&self, fields: &Fields) -> Option<Vec<TextPart>> {
        let mut values = vec![Value::MISSING; fields.paths.len()];
        parse(&self.bytes, &fields.tree, &mut values).ok()?;
        let cut = |value: &Value| self.has_gap(value.start, value.end);
        if fields.columns.iter().any(|&slot| cut(&values[slot])) {
            return None;
        }
        let part = |part: &TemplatePart| match part {
            TemplatePart::Literal(bytes) => Some(TextPart::Literal(bytes.clone())),
            TemplatePart::Field(slot) => {
                let value = values[*slot];
                let (start, end) = (self.place(value.start), self.place(value.end));
                Some(TextPart::Span(start, end))
            }
            TemplatePart::Record => None,
        };
        fields.text.iter().map(part).collect()
    }

    /// Goes through whole characters; stops before an escape that is cut off by the window, unless nothing follows.
    fn walk(&mut self, window: &[u8], last: bool) -> usize {
        let mut at = 0;
        while at < window.len() {
            let rest = &window[at..];
            let Some(kept) = self.inside else {
                let quote = memchr::memchr(b'"', rest);
                let end = quote.map_or(rest.len(), |quote| quote + 1);
                self.keep(&rest[..end]);
                self.inside = quote.map(|_| 0);
                at += end;
                continue;
            };
            let run = find_special(rest);
            if run > 0 {
                self.take(&rest[..run], kept);
                at += run;
                continue;
            }
            let (width, show) = match rest[0] {
                b'\\' => match escape(rest, last) {
                    Some(found) => found,
                    None => return at,
                },
                _ => (1, true),
            };
            if show {
                self.keep(&rest[..width]);
            } else {
                self.take(&rest[..width], kept);
            }
            if rest[0] == b'"' {
                self.inside = None;
            }
            at += width;
        }
        at
    }

    /// Good characters of a string, of which the first are kept; an escape is kept whole or not at all.
    fn take(&mut self, good: &[u8], kept: usize) {
        let room = self.most.saturating_sub(kept);
        let end = match good {
            _ if good.len() <= room => good.len(),
            [b'\\', ..] => 0,
            _ => (0..=room)
                .rev()
                .find(|&at| good[at] & 0xC0 != 0x80)
                .unwrap_or(0),
        };
        self.keep(&good[..end]);
        self.inside = Some(if end < good.len() {
            self.most
        } else {
            kept + end
        });
        self.leave_out(good.len() - end);
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn leave_out(&mut self, length: usize) {
        match self.gaps.last_mut() {
            _ if length == 0 => {}
            Some(gap) if gap.at + 1 == self.bytes.len() => gap.length += length,
            _ => {
                let at = self.bytes.len();
                self.gaps.push(Gap { at, length });
                self.bytes.push(STANDS_FOR_MORE);
            }
        }
    }

    /// The byte of the line that corresponds to a byte of the outline.
    fn place(&self, at: usize) -> usize {
        let before = self.gaps.iter().take_while(|gap| gap.at < at);
        at + before.map(|gap| gap.length - 1).sum::<usize>()
    }

    fn has_gap(&self, start: usize, end: usize) -> bool {
        let mut places = self.gaps.iter().map(|gap| gap.at);
        places.any(|at| (start..end).contains(&at))
    }
}

/// The width of the escape that starts `s`, and whether the parser must see it: it is bad, or a lone surrogate. None
/// if that depends on bytes that follow, which cannot be after the `last`.
fn escape(s: &[u8], last: bool) -> Option<(usize, bool)> {
    match escape_at(s) {
        Escape::Good(6) => {}
        Escape::Good(width) => return Some((width, false)),
        Escape::Bad => return Some((1, true)),
        Escape::Cut => return last.then_some((1, true)),
    }
    let found = character_at(s)?;
    let next = &s[6..s.len().min(12)];
    let low_may_follow = matches!(
        &s[2..4],
        [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B']
    ) && next.len() < 6
        && b"\\u".iter().zip(next).all(|(want, found)| want == found);
    match found.character {
        None if low_may_follow && !last => None,
        character => Some((found.used, character.is_none())),
    }
}

/// Unescapes a part of the body of a valid JSON string: the text, and how many bytes were used. What is cut off at the
/// end must be passed again with what follows, unless it is `last`.
pub fn unescape_part(part: &[u8], policy: Policy, last: bool) -> (Vec<u8>, usize) {
    let end = if last { part.len() } else { whole_length(part) };
    let mut text = Vec::new();
    // Under `Refuse` a body with a lone surrogate was refused before.
    let _ = unescape(&part[..end], policy, &mut text);
    (text, end)
}

/// Where the last whole character or escape ends.
fn whole_length(part: &[u8]) -> usize {
    let mut at = 0;
    while at < part.len() {
        let run = find_special(&part[at..]);
        if at + run == part.len() {
            let start = (at..part.len()).rev().find(|&at| part[at] & 0xC0 != 0x80);
            let start = start.unwrap_or(at);
            let good = std::str::from_utf8(&part[start..]).is_ok();
            return if good { part.len() } else { start };
        }
        at += run;
        match escape(&part[at..], false) {
            Some((width, _)) => at += width,
            None => return at,
        }
    }
    at
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
