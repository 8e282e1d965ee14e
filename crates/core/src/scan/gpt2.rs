//! GPT-2: `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//!
//! With `digits`, HF's `Digits(individual)` runs first (`StarCoder`, Command-R): every digit is a
//! piece of its own, and the text between two digits is matched as if it stood alone.

use super::classes::{char_at, class, ClassSet, HF_DIGIT, LETTERS, OTHERS, SPACES};
use super::runs::{blank, contraction, run};
use super::spec::Gpt2;

const NUMBERS: ClassSet = ClassSet::of(&[class::NUMBER]);

/// The end of the piece that starts at `start`.
#[inline(always)]
pub fn piece_end(flags: Gpt2, text: &[u8], start: usize) -> usize {
    if flags.digits {
        return piece_end_between_digits(text, start);
    }
    let short = contraction(text, start);
    if short > 0 {
        return start + short;
    }
    let (first, width) = char_at(text, start);
    let after_space = start + usize::from(text[start] == b' ');
    let (lead, _) = char_at(text, after_space);
    for set in [LETTERS, NUMBERS, OTHERS] {
        if set.has(lead) {
            return run(text, after_space, set);
        }
    }
    debug_assert!(SPACES.has(first) && width > 0);
    let blank = blank(text, start);
    blank.without_last(start, blank.end == text.len())
}

fn is_digit(properties: u8) -> bool {
    properties & HF_DIGIT != 0
}

fn piece_end_between_digits(text: &[u8], start: usize) -> usize {
    let short = contraction(text, start);
    if short > 0 {
        return start + short;
    }
    let (first, width) = char_at(text, start);
    if is_digit(first) {
        return start + width;
    }
    let after_space = start + usize::from(text[start] == b' ');
    let (lead, _) = char_at(text, after_space);
    if LETTERS.has(lead) {
        return run(text, after_space, LETTERS);
    }
    if OTHERS.has(lead) && !is_digit(lead) {
        return others_without_digits(text, after_space);
    }
    let blank = blank(text, start);
    let at_end = blank.end == text.len() || is_digit(char_at(text, blank.end).0);
    blank.without_last(start, at_end)
}

/// `[^\s\p{L}\p{N}]+` up to a digit: code points newer than the regex's Unicode are both.
fn others_without_digits(text: &[u8], mut at: usize) -> usize {
    loop {
        let (properties, width) = char_at(text, at);
        if !OTHERS.has(properties) || is_digit(properties) {
            return at;
        }
        at += width;
    }
}
