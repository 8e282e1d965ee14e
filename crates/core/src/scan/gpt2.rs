//! GPT-2: `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//!
//! With `digits`, HF's `Digits(individual)` runs first (`StarCoder`, Command-R): every digit is a piece of its own,
//! and the text between two digits is matched as if it were alone.

use std::sync::Arc;

use super::algebra::{after, ahead};
use super::block::{role, Block, Roles};
use super::classes::{char_at, class, ClassSet, HF_DIGIT, LETTERS, OTHERS, SPACES};
use super::known::Known;
use super::path::Path;
use super::patterns::{one_regex, take};
use super::pieces::Pieces;
use super::runs::{blank, contraction, run};
use super::spec::Step;
use super::window::{Family, Starts};

const NUMBERS: ClassSet = ClassSet::of(&[class::NUMBER]);

/// Contractions in lower case.
const SHORT: &[&str] = &["'s|'t|'re|'ve|'m|'ll|'d", "'(?:[sdmt]|ll|ve|re)"];
/// Words, numbers and others.
const WORDS: &[&str] = &[
    r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
    r" ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+",
    r" ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++",
];
/// White space.
const BLANK: &[&str] = &[r"\s+(?!\S)|\s+", r"\s+(?!\S)|\s", r"\s++$|\s+(?!\S)|\s"];

/// Flags of the family.
#[derive(Clone, Copy, Debug)]
pub struct Gpt2 {
    /// HF's `Digits(individual)` runs first: `StarCoder`, Command-R.
    pub digits: bool,
}

/// The pattern.
pub fn regex() -> String {
    [SHORT[0], WORDS[0], BLANK[0]].join("|")
}

/// The flags of a chain that is one of the known ones.
pub fn recognise(steps: &[Step]) -> Option<Arc<dyn Known>> {
    let (digits, rest) = match steps {
        [Step::Digits { individual: true }, rest @ ..] => (true, rest),
        _ => (false, steps),
    };
    let known = match rest {
        [Step::ByteLevel] => true,
        _ => is_spelling(&one_regex(rest)?.0).unwrap_or(false),
    };
    known.then(|| Arc::new(Gpt2 { digits }) as _)
}

fn is_spelling(regex: &str) -> Option<bool> {
    Some(BLANK.contains(&take(take(regex, SHORT)?, WORDS)?))
}

impl Known for Gpt2 {
    fn steps(&self) -> Vec<Step> {
        let digits = self.digits.then_some(Step::Digits { individual: true });
        digits.into_iter().chain([Step::ByteLevel]).collect()
    }

    fn fill(&self, path: Path, pieces: &mut Pieces, text: &[u8], ends: &mut [u32]) -> usize {
        path.fill(*self, pieces, text, ends)
    }
}

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

impl Roles for Gpt2 {
    const CASED: bool = false;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        let role = match properties & 15 {
            class::UPPER | class::LOWER | class::CASELESS => role::LETTER,
            class::NUMBER => role::NUMBER,
            class::SPACE => role::BLANK,
            _ if self.digits && is_digit(properties) => role::NUMBER,
            _ => role::OTHER,
        };
        (role, false)
    }

    #[inline(always)]
    fn han(self) -> u8 {
        role::LETTER
    }

    #[inline(always)]
    fn ends_blank(self, properties: u8) -> bool {
        self.digits && is_digit(properties)
    }
}

impl Family for Gpt2 {
    #[inline(always)]
    fn piece_end(self, text: &[u8], start: usize) -> usize {
        piece_end(self, text, start)
    }

    /// A run of letters, numbers or others starts a piece unless a space before it does; white space starts a piece
    /// at its first character and at its last.
    #[inline(always)]
    fn starts(self, blocks: &[Block], starts: &mut Starts) {
        for (i, blocks) in blocks.windows(3).enumerate() {
            let [before, block, next] = blocks else {
                return;
            };
            let (letter, number) = (block.of(role::LETTER), block.of(role::NUMBER));
            let (blank, other) = (block.of(role::BLANK), block.other());
            let spaced = after(block.space, before.space);
            let unquoted = other & !after(other, before.other()) & !spaced;
            let mut found = letter & !after(letter, before.of(role::LETTER)) & !spaced | unquoted;
            let mut goes_on = ahead(blank, next.of(role::BLANK));
            if self.digits {
                found |= number & !block.inner;
                goes_on |= ahead(number, next.of(role::NUMBER));
            } else {
                found |= number & !after(number, before.of(role::NUMBER)) & !spaced;
            }
            found |= blank & !after(blank, before.of(role::BLANK));
            found |= blank & !block.high & !goes_on | block.last_wide;
            starts.set(i, found, block.quote & unquoted, 0);
        }
    }

    /// `'s`: the apostrophe starts a piece that ends with the contraction.
    #[inline(always)]
    fn mend_quote(self, text: &[u8], at: usize, _: usize) -> Option<(usize, usize)> {
        let short = contraction(text, at);
        (short > 0).then_some((at + 1, at + short))
    }
}
