//! cl100k and its relatives (Llama-3, OLMo-2, Qwen):
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`.

use std::sync::Arc;

use super::algebra::{after, Common};
use super::block::{role, Block, Roles};
use super::classes::{char_at, class, ClassSet};
use super::classes::{LETTERS, LETTERS_MARKS, OTHERS, OTHERS_UNMARKED};
use super::known::Known;
use super::path::Path;
use super::patterns::{self, digits, one_regex, take, take_digits, LINES, SHORT_ANY_CASE};
use super::pieces::Pieces;
use super::runs::{blank, contraction_any_case, newlines, numbers, run};
use super::spec::{Dialect, Step};
use super::window::{Family, Starts};

/// Words, without and with marks among the letters.
const WORDS: [&[&str]; 2] = [
    &[
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"[^\r\n\p{L}\p{N}]?+\p{L}+",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
    ],
    &[r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"],
];
/// Punctuation, excluding marks where they count as letters.
const SIGNS: [&[&str]; 2] = [
    patterns::OTHERS,
    &[
        r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
        r" ?[^\s\p{L}\p{N}\p{M}]+[\r\n]*",
    ],
];
/// White space, with the white space at the end of the text first. `$` means the same in every dialect here: no white
/// space is left before which it could match.
const LINES_TAIL: &[&str] = &[
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"\s++$|\s*[\r\n]+|\s+(?!\S)|\s+",
];

/// Flags of the family.
#[derive(Clone, Copy, Debug)]
pub struct Cl100k {
    /// The longest run of numbers in one piece: 1 (Qwen) or 3.
    pub digits: u8,
    /// Marks join letters (Qwen-3.5) instead of punctuation.
    pub marks: bool,
    /// White space at the end of the text is one piece (`\s++$` of tiktoken's own pattern).
    pub tail: bool,
}

/// The flags of a chain that is one of the known ones.
pub fn recognise(steps: &[Step]) -> Option<Arc<dyn Known>> {
    let (regex, dialect) = one_regex(steps)?;
    Some(Arc::new(flags_of(&regex, dialect)?))
}

fn flags_of(regex: &str, dialect: Dialect) -> Option<Cl100k> {
    let rest = take(regex, SHORT_ANY_CASE)?;
    let (marks, rest) = match take(rest, WORDS[0]) {
        Some(rest) => (false, rest),
        None => (true, take(rest, WORDS[1])?),
    };
    let (digits, rest) = take_digits(rest, dialect)?;
    let rest = take(rest, SIGNS[usize::from(marks)])?;
    let tail = LINES_TAIL.contains(&rest);
    (tail || LINES.contains(&rest)).then_some(Cl100k {
        digits,
        marks,
        tail,
    })
}

impl Known for Cl100k {
    fn steps(&self) -> Vec<Step> {
        let marks = usize::from(self.marks);
        let lines = if self.tail { LINES_TAIL } else { LINES };
        let alternatives = [
            SHORT_ANY_CASE[0],
            WORDS[marks][0],
            digits(self.digits),
            SIGNS[marks][0],
            lines[0],
        ];
        vec![Step::isolate(alternatives.join("|"))]
    }

    fn fill(&self, path: Path, pieces: &mut Pieces, text: &[u8], ends: &mut [u32]) -> usize {
        path.fill(*self, pieces, text, ends)
    }
}

/// The letters and the others for a set of flags: marks join one or the other.
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

impl Roles for Cl100k {
    const CASED: bool = false;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        match properties & 15 {
            class::UPPER | class::LOWER | class::CASELESS => (role::LETTER, false),
            class::MARK if self.marks => (role::LETTER, false),
            // The algebra counts bytes, so it cannot count three wide numbers.
            class::NUMBER => (role::NUMBER, self.digits != 1),
            class::SPACE => (role::BLANK, false),
            _ => (role::OTHER, false),
        }
    }

    #[inline(always)]
    fn han(self) -> u8 {
        role::LETTER
    }

    #[inline(always)]
    fn ends_blank(self, _: u8) -> bool {
        false
    }
}

impl Family for Cl100k {
    #[inline(always)]
    fn piece_end(self, text: &[u8], start: usize) -> usize {
        piece_end(self, text, start)
    }

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
        let short = contraction_any_case(text, at);
        (short > 0).then_some((at + 1, at + short))
    }
}
