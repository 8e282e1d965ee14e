//! cl100k and its relatives (Llama-3, OLMo-2, Qwen):
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::algebra::{after, Common};
use super::block::{role, Block, Roles};
use super::classes::class;
use super::spec::Step;
use super::window::{Family, Starts};

/// Contractions in any case.
pub const SHORT: &str = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
/// Punctuation with the newlines after it.
pub const SIGNS: &str = r" ?[^\s\p{L}\p{N}]+[\r\n]*";
/// White space up to the last newline, then the rest.
pub const LINES: &str = r"\s*[\r\n]+|\s+(?!\S)|\s+";
/// White space, with the white space at the end of the text first. `$` means the same in every dialect here: no white
/// space is left before which it could match.
const LINES_TAIL: &str = r"\s++$|\s*[\r\n]|\s+(?!\S)|\s";

/// Flags of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cl100k {
    /// The longest run of numbers in one piece: 1 (Qwen), 3, or [`u8::MAX`] for any.
    pub digits: u8,
    /// Marks join letters (Qwen-3.5) instead of punctuation.
    pub marks: bool,
    /// White space at the end of the text is one piece (`\s++$` of tiktoken's own pattern).
    pub tail: bool,
}

/// The number alternative.
pub fn digits(limit: u8) -> String {
    match limit {
        1 => r"\p{N}".into(),
        u8::MAX => r"\p{N}+".into(),
        _ => format!(r"\p{{N}}{{1,{limit}}}"),
    }
}

impl Cl100k {
    /// The steps of the family.
    pub fn steps(self) -> Vec<Step> {
        let (word, signs) = if self.marks {
            (r"[\p{L}\p{M}]+", r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")
        } else {
            (r"\p{L}+", SIGNS)
        };
        let lines = if self.tail { LINES_TAIL } else { LINES };
        let digits = digits(self.digits);
        let regex = format!(r"{SHORT}|[^\r\n\p{{L}}\p{{N}}]?{word}|{digits}|{signs}|{lines}");
        vec![Step::isolate(regex)]
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `at`: its length, or 0. Case folding adds `ſ` to `s`.
#[inline(always)]
pub fn contraction(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\'', b's' | b'd' | b'm' | b't' | b'S' | b'D' | b'M' | b'T', ..] => 2,
        [b'\'', b'l' | b'L', b'l' | b'L', ..]
        | [b'\'', b'v' | b'r' | b'V' | b'R', b'e' | b'E', ..]
        | [b'\'', 0xC5, 0xBF, ..] => 3,
        _ => 0,
    }
}

/// Whether numbers that are not ASCII are odd: the algebra counts bytes, so it cannot count wide numbers.
pub fn counted(digits: u8) -> bool {
    !matches!(digits, 1 | u8::MAX)
}

impl Roles for Cl100k {
    const CASED: bool = false;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        match properties & 15 {
            class::UPPER | class::LOWER | class::CASELESS => (role::LETTER, false),
            class::MARK if self.marks => (role::LETTER, false),
            class::NUMBER => (role::NUMBER, counted(self.digits)),
            class::SPACE => (role::BLANK, false),
            _ => (role::OTHER, false),
        }
    }
}

impl Family for Cl100k {
    /// A word starts at its prefix: one other character that starts a piece itself, or the last
    /// white space before it, unless that is a newline.
    #[inline(always)]
    fn starts(self, blocks: &[Block], starts: &mut Starts) {
        let mut common = Common::default();
        for i in 0..blocks.len().saturating_sub(2) {
            let (before, block) = (&blocks[i], &blocks[i + 1]);
            let found = common.step(&blocks[i..], self.digits, self.tail);
            let letter = block.of(role::LETTER);
            let word = letter & !after(letter, before.of(role::LETTER)) & !found.prefixed;
            starts.set(i, word | found.starts, block.quote & found.signs, block.odd);
        }
    }

    /// `'s` at the start of a piece: what follows it starts another.
    #[inline(always)]
    fn mend_quote(self, text: &[u8], at: usize, _: usize) -> Option<(usize, usize)> {
        let short = contraction(text, at);
        (short > 0).then_some((at + 1, at + short))
    }
}
