//! cl100k and its relatives (Llama-3, OLMo-2, Qwen):
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::classes::{char_at, class, ClassSet};
use super::classes::{LETTERS, LETTERS_MARKS, OTHERS, OTHERS_UNMARKED};
use super::runs::{blank, contraction_any_case, newlines, numbers, run};
use super::spec::Cl100k;

/// The letters and the others of a flag set: marks join one or the other.
pub fn sets(flags: Cl100k) -> (ClassSet, ClassSet) {
    if flags.marks {
        (LETTERS_MARKS, OTHERS_UNMARKED)
    } else {
        (LETTERS, OTHERS)
    }
}

/// The end of the piece that starts at `start`.
#[inline(always)]
pub fn piece_end(flags: Cl100k, text: &[u8], start: usize) -> usize {
    let short = contraction_any_case(text, start);
    if short > 0 {
        return start + short;
    }
    let (letters, others) = sets(flags);
    let (first, width) = char_at(text, start);
    if letters.has(first) {
        return run(text, start + width, letters);
    }
    if first & 15 == class::NUMBER {
        return numbers(text, start, flags.digits);
    }
    let next = char_at(text, start + width).0;
    if first & 15 != class::NEWLINE && letters.has(next) {
        return run(text, start + width, letters);
    }
    let after_space = start + usize::from(text[start] == b' ');
    if others.has(char_at(text, after_space).0) {
        return newlines(text, run(text, after_space, others));
    }
    let blank = blank(text, start);
    let at_end = blank.end == text.len();
    if flags.tail && at_end {
        blank.end
    } else {
        blank.by_lines(start, at_end)
    }
}
