//! o200k and its relatives (GPT-4o, Llama-4, tekken, Kimi-K2), with U = `[\p{Lu}\p{Lt}]`, l = `\p{Ll}`
//! and B = `[\p{Lm}\p{Lo}\p{M}]`, which counts as both:
//! `[^\r\n\p{L}\p{N}]?[UB]*[lB]+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?[UB]+[lB]*(?i:'s|…)?|\p{N}{1,3}|`
//! ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`. Kimi has `\p{Han}+` first and takes Han out
//! of U, l and B.

use super::algebra::{after, Common};
use super::block::{role, Block, Roles};
use super::cl100k::{contraction, counted, digits, LINES, SHORT, SIGNS};
use super::classes::{class, HAN};
use super::spec::Step;
use super::window::{Family, Starts};

/// Words that end in lower case, and words that begin in upper case.
const WORDS: [&str; 2] = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
];
/// What Kimi-K2 has in place of the end of a letter class.
const NOT_HAN: &str = r"\p{M}&&[^\p{Han}]]";
/// Kimi-K2's first alternative.
const HAN_RUN: &str = r"[\p{Han}]+|";
/// Punctuation with newlines and slashes after it.
const SLASHES: &str = r" ?[^\s\p{L}\p{N}]+[\r\n/]*";

/// Flags of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct O200k {
    /// A word takes a following `'s`, `'ll`… along.
    pub contractions: bool,
    /// The longest run of numbers in one piece: 1 (tekken), 3, or [`u8::MAX`] for any.
    pub digits: u8,
    /// Punctuation takes following slashes along, like newlines.
    pub slash: bool,
    /// Han runs are pieces of their own (Kimi-K2).
    pub han: bool,
}

impl O200k {
    /// The steps of the family.
    pub fn steps(self) -> Vec<Step> {
        let words = WORDS.map(|word| {
            let mut word = word.to_owned();
            if self.han {
                word = word.replace(r"\p{M}]", NOT_HAN);
            }
            if self.contractions {
                word.extend([SHORT, "?"]);
            }
            word
        });
        let signs = if self.slash { SLASHES } else { SIGNS };
        let mut alternatives =
            [&words[0], &words[1], digits(self.digits).as_str(), signs, LINES].join("|");
        if self.han {
            alternatives.insert_str(0, HAN_RUN);
        }
        vec![Step::isolate(alternatives)]
    }
}

impl Roles for O200k {
    const CASED: bool = true;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        let kind = properties & 15;
        if self.han && properties & HAN != 0 {
            // Han numbers, symbols and marks also end runs of their kind.
            return (role::APART, kind != class::CASELESS);
        }
        match kind {
            class::UPPER => (role::UPPER, false),
            class::LOWER => (role::LOWER, false),
            class::CASELESS => (role::LETTER, false),
            class::MARK => (role::LETTER, true),
            class::NUMBER => (role::NUMBER, counted(self.digits)),
            class::SPACE => (role::BLANK, false),
            _ => (role::OTHER, false),
        }
    }

    #[inline(always)]
    fn han(self) -> u8 {
        if self.han {
            role::APART
        } else {
            role::LETTER
        }
    }
}

impl Family for O200k {
    /// Like cl100k, except that a word also starts at an upper-case letter after a lower-case one. Whether it starts
    /// at one after a caseless letter depends on what follows; the same goes for a mark after punctuation.
    #[inline(always)]
    fn starts(self, blocks: &[Block], starts: &mut Starts) {
        let (mut common, mut swallowed) = (Common::default(), 0);
        for i in 0..blocks.len().saturating_sub(2) {
            let (before, block) = (&blocks[i], &blocks[i + 1]);
            let found = common.step(&blocks[i..], self.digits, false);
            let (letter, upper) = (block.word(), block.of(role::UPPER));
            let (apart, number) = (block.of(role::APART), block.of(role::NUMBER));
            let letters = after(letter, before.word());
            let word = letter & !letters & !found.prefixed
                | upper & after(block.of(role::LOWER), before.of(role::LOWER))
                | apart & !after(apart, before.of(role::APART));
            let quotes = if self.contractions { block.quote & found.signs & letters } else { 0 };
            let mut odd = block.odd & (found.after_signs | apart | number)
                | upper & after(block.of(role::LETTER), before.of(role::LETTER));
            if self.slash {
                odd |= block.slash & after(found.swallowed, swallowed);
                swallowed = found.swallowed;
            }
            starts.set(i, word | found.starts, quotes, odd);
        }
    }

    /// A word takes a contraction along, but not a second one.
    #[inline(always)]
    fn mend_quote(self, text: &[u8], at: usize, previous: usize) -> Option<(usize, usize)> {
        let short = contraction(text, at);
        (short > 0 && at != previous).then_some((at, at + short))
    }
}
