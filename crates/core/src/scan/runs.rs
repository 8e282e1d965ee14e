//! The small matches that the families share: runs, white space, contractions, digit groups.
//!
//! Each takes the text and a position and returns the end of the match, as the pattern's greedy alternative would.
//! They are the plain definition that the block algebra is tested against.

use super::classes::{char_at, class, ClassSet, SPACES};

/// The end of the longest run of `set` that starts at `at` (which may be empty).
#[inline(always)]
pub fn run(text: &[u8], mut at: usize, set: ClassSet) -> usize {
    loop {
        let (properties, width) = char_at(text, at);
        if !set.has(properties) {
            return at;
        }
        at += width;
    }
}

/// The end of the longest run of bytes that `accept` accepts.
#[inline(always)]
pub fn byte_run(text: &[u8], at: usize, accept: impl Fn(u8) -> bool) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| !accept(b)).unwrap_or(rest.len())
}

/// `[\r\n]*`
#[inline(always)]
pub fn newlines(text: &[u8], at: usize) -> usize {
    byte_run(text, at, |b| matches!(b, b'\r' | b'\n'))
}

/// `\p{N}{1,limit}`, given that a number is at `at`.
#[inline(always)]
pub fn numbers(text: &[u8], mut at: usize, limit: u8) -> usize {
    for _ in 0..limit {
        let (properties, width) = char_at(text, at);
        if properties & 15 != class::NUMBER {
            break;
        }
        at += width;
    }
    at
}

/// A run of white space: where it ends, where its last character starts, and the end of its last
/// newline (the start of the run if it has none).
pub struct Blank {
    /// End of the run.
    pub end: usize,
    /// Start of its last character.
    pub last: usize,
    /// End of its last `\r` or `\n`; the start of the run if there is none.
    pub newline: usize,
}

/// Measures the white space at `at`.
#[inline(always)]
pub fn blank(text: &[u8], at: usize) -> Blank {
    let mut blank = Blank {
        end: at,
        last: at,
        newline: at,
    };
    loop {
        let (properties, width) = char_at(text, blank.end);
        if !SPACES.has(properties) {
            return blank;
        }
        blank.last = blank.end;
        blank.end += width;
        if properties & 15 == class::NEWLINE {
            blank.newline = blank.end;
        }
    }
}

impl Blank {
    /// `\s+(?!\S)|\s+`: all of it at the end of the text, otherwise all but its last character.
    #[inline(always)]
    pub fn without_last(&self, start: usize, at_end: bool) -> usize {
        if at_end || self.last == start {
            self.end
        } else {
            self.last
        }
    }

    /// `\s*[\r\n]+|\s+(?!\S)|\s+`
    #[inline(always)]
    pub fn by_lines(&self, start: usize, at_end: bool) -> usize {
        if self.newline > start {
            self.newline
        } else {
            self.without_last(start, at_end)
        }
    }
}

/// `'(?:[sdmt]|ll|ve|re)` at `at`: its length, or 0.
#[inline(always)]
pub fn contraction(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => 2,
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => 3,
        _ => 0,
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`: its length, or 0. Case folding adds `ſ` to `s`.
#[inline(always)]
pub fn contraction_any_case(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\'', b's' | b'd' | b'm' | b't' | b'S' | b'D' | b'M' | b'T', ..] => 2,
        [b'\'', b'l' | b'L', b'l' | b'L', ..]
        | [b'\'', b'v' | b'r' | b'V' | b'R', b'e' | b'E', ..]
        | [b'\'', 0xC5, 0xBF, ..] => 3,
        _ => 0,
    }
}
