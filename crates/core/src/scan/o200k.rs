//! o200k and its relatives (GPT-4o, Llama-4, tekken, Kimi-K2), with U = `[\p{Lu}\p{Lt}]`, l = `\p{Ll}`
//! and B = `[\p{Lm}\p{Lo}\p{M}]`, which counts as both:
//! `[^\r\n\p{L}\p{N}]?[UB]*[lB]+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?[UB]+[lB]*(?i:'s|…)?|\p{N}{1,3}|`
//! ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`. Kimi has `\p{Han}+` first and takes Han out
//! of U, l and B.

use super::classes::{char_at, class, ClassSet, HAN, LETTERS, OTHERS};
use super::runs::{blank, byte_run, contraction_any_case, numbers, run};
use super::spec::O200k;

const UPPER_BOTH: ClassSet = ClassSet::of(&[class::UPPER, class::CASELESS, class::MARK]);
const LOWER_BOTH: ClassSet = ClassSet::of(&[class::LOWER, class::CASELESS, class::MARK]);
const BOTH: ClassSet = ClassSet::of(&[class::CASELESS, class::MARK]);

/// The end of the piece that starts at `start`.
#[inline(always)]
pub fn piece_end(flags: O200k, text: &[u8], start: usize) -> usize {
    let (first, width) = char_at(text, start);
    if flags.han && first & HAN != 0 {
        return han_run(text, start);
    }
    if let Some(end) = word_end(flags, text, start, first, width) {
        let short = if flags.contractions {
            contraction_any_case(text, end)
        } else {
            0
        };
        return end + short;
    }
    if first & 15 == class::NUMBER {
        return numbers(text, start, flags.digits);
    }
    let after_space = start + usize::from(text[start] == b' ');
    if OTHERS.has(char_at(text, after_space).0) {
        let end = run(text, after_space, OTHERS);
        return byte_run(text, end, |b| {
            matches!(b, b'\r' | b'\n') || flags.slash && b == b'/'
        });
    }
    let blank = blank(text, start);
    blank.by_lines(start, blank.end == text.len())
}

fn han_run(text: &[u8], mut at: usize) -> usize {
    loop {
        let (properties, width) = char_at(text, at);
        if properties & HAN == 0 {
            return at;
        }
        at += width;
    }
}

/// The end of either word alternative, before its contraction. The regex tries, in this order:
/// the first alternative with a prefix, without one, then the second likewise.
#[inline(always)]
fn word_end(flags: O200k, text: &[u8], start: usize, first: u8, width: usize) -> Option<usize> {
    let prefixed = !LETTERS.has(first) && !matches!(first & 15, class::NUMBER | class::NEWLINE);
    let body = if prefixed { start + width } else { start };
    let upper = cased_run(flags, text, body, UPPER_BOTH);
    let with_lower = lower_tail(flags, text, body, upper);
    if with_lower.is_some() || !prefixed {
        return with_lower.or((upper > body).then_some(upper));
    }
    // The first character may be a mark: then it can be the word instead of its prefix.
    if first & 15 == class::MARK {
        let upper = cased_run(flags, text, start, UPPER_BOTH);
        return lower_tail(flags, text, start, upper);
    }
    (upper > body).then_some(upper)
}

/// `[UB]*[lB]+` from `body`, where `upper` ends the longest `[UB]*`. Without a lower-case letter
/// there, the regex gives characters back until the last of B can stand for `[lB]+`.
#[inline(always)]
fn lower_tail(flags: O200k, text: &[u8], body: usize, upper: usize) -> Option<usize> {
    let end = cased_run(flags, text, upper, LOWER_BOTH);
    if end > upper {
        return Some(end);
    }
    let (mut at, mut last) = (body, None);
    while at < upper {
        let (properties, width) = char_at(text, at);
        at += width;
        if BOTH.has(properties) {
            last = Some(at);
        }
    }
    last
}

#[inline(always)]
fn cased_run(flags: O200k, text: &[u8], at: usize, set: ClassSet) -> usize {
    if !flags.han {
        return run(text, at, set);
    }
    let mut at = at;
    loop {
        let (properties, width) = char_at(text, at);
        if !set.has(properties) || properties & HAN != 0 {
            return at;
        }
        at += width;
    }
}
