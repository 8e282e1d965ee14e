//! GPT-2: `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//!
//! With `digits`, HF's `Digits(individual)` runs first (`StarCoder`, Command-R): every digit is a piece of its own,
//! and the text between two digits is matched as if it were alone.

use super::algebra::{after, ahead};
use super::block::{role, Block, Roles};
use super::classes::{class, HF_DIGIT};
use super::spec::Step;
use super::window::{Family, Starts};

/// The pattern.
pub const REGEX: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Flags of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpt2 {
    /// HF's `Digits(individual)` runs first: `StarCoder`, Command-R.
    pub digits: bool,
}

impl Gpt2 {
    /// The steps of the family.
    pub fn steps(self) -> Vec<Step> {
        let digits = self.digits.then_some(Step::Digits { individual: true });
        digits.into_iter().chain([Step::ByteLevel]).collect()
    }
}

/// `'(?:[sdmt]|ll|ve|re)` at `at`: its length, or 0.
#[inline(always)]
fn contraction(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => 2,
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => 3,
        _ => 0,
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
            _ if self.digits && properties & HF_DIGIT != 0 => role::NUMBER,
            _ => role::OTHER,
        };
        (role, false)
    }

    #[inline(always)]
    fn ends_blank(self, properties: u8) -> bool {
        self.digits && properties & HF_DIGIT != 0
    }
}

impl Family for Gpt2 {
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
