//! DeepSeek-V3: a chain of three splits, each matching inside the pieces of the one before:
//! `\p{N}{1,3}`, then `[一-龥぀-ゟ゠-ヿ]+`, then
//! `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`. What no alternative takes (controls, unassigned) stays a piece.

use super::classes::{char_at, class, ClassSet, DEEPSEEK_CJK, LETTERS_MARKS, SPACES};
use super::runs::{blank, byte_run, newlines, numbers};

const SIGNS: ClassSet = ClassSet::of(&[class::PUNCTUATION, class::SYMBOL]);

/// The text as the third split sees it from one place on: up to the next number, and all inside a
/// run of CJK or all outside. A piece of the second split may still be cut by the third (`中・`).
#[derive(Clone, Copy)]
struct Segment<'t> {
    text: &'t [u8],
    cjk: u8,
}

impl Segment<'_> {
    /// Properties and width of the character at `at`; the end of the segment is the end of the text.
    #[inline(always)]
    fn char_at(self, at: usize) -> (u8, usize) {
        let (properties, width) = char_at(self.text, at);
        if properties & DEEPSEEK_CJK != self.cjk || properties & 15 == class::NUMBER {
            (class::END, 0)
        } else {
            (properties, width)
        }
    }

    #[inline(always)]
    fn run(self, mut at: usize, set: ClassSet) -> usize {
        loop {
            let (properties, width) = self.char_at(at);
            if !set.has(properties) {
                return at;
            }
            at += width;
        }
    }

    fn blank_end(self, start: usize) -> usize {
        let blank = blank(self.text, start);
        blank.by_lines(start, self.char_at(blank.end).0 == class::END)
    }

    /// The end of a run that no alternative matches: its last character may begin a word instead.
    fn unmatched_end(self, start: usize) -> usize {
        let mut at = start;
        loop {
            let (properties, width) = self.char_at(at);
            if properties & 15 != class::OTHER {
                return at;
            }
            if at > start && LETTERS_MARKS.has(self.char_at(at + width).0) {
                return at;
            }
            at += width;
        }
    }
}

/// The end of the piece that starts at `start`.
#[inline(always)]
pub fn piece_end(text: &[u8], start: usize) -> usize {
    let (first, width) = char_at(text, start);
    if first & 15 == class::NUMBER {
        return numbers(text, start, 3);
    }
    let segment = Segment {
        text,
        cjk: first & DEEPSEEK_CJK,
    };
    if text[start].is_ascii_punctuation() {
        let end = byte_run(text, start + 1, |b| b.is_ascii_alphabetic());
        if end > start + 1 {
            return end;
        }
    }
    if LETTERS_MARKS.has(first) {
        return segment.run(start, LETTERS_MARKS);
    }
    let may_prefix = matches!(first & 15, class::SPACE | class::OTHER);
    if may_prefix && LETTERS_MARKS.has(segment.char_at(start + width).0) {
        return segment.run(start + width, LETTERS_MARKS);
    }
    let after_space = start + usize::from(text[start] == b' ');
    if SIGNS.has(segment.char_at(after_space).0) {
        let end = segment.run(after_space, SIGNS);
        return if segment.cjk == 0 {
            newlines(text, end)
        } else {
            end
        };
    }
    if SPACES.has(first) {
        return segment.blank_end(start);
    }
    segment.unmatched_end(start)
}
