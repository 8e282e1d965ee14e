//! DeepSeek-V3: a chain of three splits, each matching inside the pieces of the one before:
//! `\p{N}{1,3}`, then `[一-龥぀-ゟ゠-ヿ]+`, then
//! `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`. What no alternative takes (controls, unassigned) stays a piece.

use super::algebra::{after, ahead, Groups, Lines, NextChar};
use super::block::{role, Block, Roles};
use super::classes::{class, DEEPSEEK_CJK};
use super::spec::Step;
use super::window::{Family, Starts};

/// The three splits.
const SPLITS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
        r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*",
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
];

/// The family has no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepSeek;

impl DeepSeek {
    /// The steps of the family.
    pub fn steps() -> Vec<Step> {
        SPLITS.map(Step::isolate).to_vec()
    }
}

impl Roles for DeepSeek {
    const CASED: bool = false;
    const ODD_CONTROLS: bool = true;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        let kind = properties & 15;
        if properties & DEEPSEEK_CJK != 0 {
            return (role::APART, !matches!(kind, class::CASELESS | class::MARK));
        }
        match kind {
            class::UPPER | class::LOWER | class::CASELESS | class::MARK => (role::LETTER, false),
            class::NUMBER => (role::NUMBER, true),
            class::SPACE => (role::BLANK, false),
            _ => (role::OTHER, kind == class::OTHER),
        }
    }

    #[inline(always)]
    fn han(self) -> u8 {
        role::APART
    }

    #[inline(always)]
    fn ends_blank(self, properties: u8) -> bool {
        properties & DEEPSEEK_CJK != 0 || properties & 15 == class::NUMBER
    }
}

impl Family for DeepSeek {
    /// Like cl100k, except that the only signs that can be prefixes are ASCII ones, and only of ASCII words: in
    /// those, the first letter that is not ASCII starts another piece.
    #[inline(always)]
    fn starts(self, blocks: &[Block], starts: &mut Starts) {
        let (mut words, mut lines, mut groups) =
            (NextChar::default(), Lines::default(), Groups::default());
        let mut prefixes = 0;
        for i in 0..blocks.len().saturating_sub(2) {
            let [before, block, next] = &blocks[i..i + 3] else {
                return;
            };
            let (letter, number) = (block.of(role::LETTER), block.of(role::NUMBER));
            let (blank, other) = (block.of(role::BLANK), block.other());
            let (apart, ascii) = (block.of(role::APART), letter & !block.high);
            let signs = after(other, before.other());
            let sign_start = other & !signs & !after(block.space, before.space);
            let ascii_sign = sign_start & !block.high;
            let sign_prefix = after(ascii_sign, prefixes) & ascii;
            prefixes = ascii_sign;
            let word_end = words.step(ascii_sign, ascii) & letter;
            let blank_prefix =
                after(blank & !block.newline, before.of(role::BLANK) & !before.newline);
            let word =
                letter & !after(letter, before.of(role::LETTER)) & !sign_prefix & !blank_prefix;
            let goes_on = blank | number | apart;
            let goes_on_next = next.of(role::BLANK) | next.of(role::NUMBER) | next.of(role::APART);
            let last = blank & !block.high & !ahead(goes_on, goes_on_next) | block.last_wide;
            let lines = lines.step(&blocks[i..], signs, last, false);
            let found = word
                | word_end
                | sign_start
                | lines.starts
                | groups.step(number, 3)
                | apart & !after(apart, before.of(role::APART));
            starts.set(i, found, 0, block.odd);
        }
    }
}
