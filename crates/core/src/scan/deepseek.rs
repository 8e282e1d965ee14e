//! DeepSeek-V3: a chain of three splits, each matching inside the pieces of the one before:
//! `\p{N}{1,3}`, then `[一-龥぀-ゟ゠-ヿ]+`, then
//! `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|`
//! `\s*[\r\n]+|\s+(?!\S)|\s+`. What no alternative takes (controls, unassigned) stays a piece.

use std::sync::Arc;

use super::algebra::{after, ahead, Lines, NextChar, Triples};
use super::block::{role, Block, Roles};
use super::classes::{char_at, class, ClassSet, DEEPSEEK_CJK, LETTERS_MARKS, SPACES};
use super::known::Known;
use super::path::Path;
use super::patterns::escape_newlines;
use super::pieces::Pieces;
use super::runs::{blank, byte_run, newlines, numbers};
use super::spec::{Behavior, Pattern, Step};
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

const SIGNS: ClassSet = ClassSet::of(&[class::PUNCTUATION, class::SYMBOL]);

/// The text from one place on, as the third split sees it: up to the next number, and either all inside a run of CJK
/// or all outside. A piece of the second split may still be cut by the third (`中・`).
#[derive(Clone, Copy)]
struct Segment<'t> {
    text: &'t [u8],
    cjk: u8,
}

impl Segment<'_> {
    /// Properties and width of the character at `at`; the end of the segment counts as the end of the text.
    #[inline(always)]
    fn char_at(self, at: usize) -> (u8, usize) {
        let (properties, width) = char_at(self.text, at);
        if properties & DEEPSEEK_CJK != self.cjk || properties & 15 == class::NUMBER {
            (class::END, 0)
        } else {
            (properties, width)
        }
    }

    #[inline(always)]
    fn run(self, mut at: usize, set: ClassSet) -> usize {
        loop {
            let (properties, width) = self.char_at(at);
            if !set.has(properties) {
                return at;
            }
            at += width;
        }
    }

    fn blank_end(self, start: usize) -> usize {
        let blank = blank(self.text, start);
        blank.by_lines(start, self.char_at(blank.end).0 == class::END)
    }

    /// The end of a run that no alternative matches: its last character may begin a word instead.
    fn unmatched_end(self, start: usize) -> usize {
        let mut at = start;
        loop {
            let (properties, width) = self.char_at(at);
            if properties & 15 != class::OTHER {
                return at;
            }
            if at > start && LETTERS_MARKS.has(self.char_at(at + width).0) {
                return at;
            }
            at += width;
        }
    }
}

/// The end of the piece that starts at `start`.
#[inline(always)]
pub fn piece_end(text: &[u8], start: usize) -> usize {
    let (first, width) = char_at(text, start);
    if first & 15 == class::NUMBER {
        return numbers(text, start, 3);
    }
    let segment = Segment {
        text,
        cjk: first & DEEPSEEK_CJK,
    };
    if text[start].is_ascii_punctuation() {
        let end = byte_run(text, start + 1, |b| b.is_ascii_alphabetic());
        if end > start + 1 {
            return end;
        }
    }
    if LETTERS_MARKS.has(first) {
        return segment.run(start, LETTERS_MARKS);
    }
    let may_prefix = matches!(first & 15, class::SPACE | class::OTHER);
    if may_prefix && LETTERS_MARKS.has(segment.char_at(start + width).0) {
        return segment.run(start + width, LETTERS_MARKS);
    }
    let after_space = start + usize::from(text[start] == b' ');
    if SIGNS.has(segment.char_at(after_space).0) {
        let end = segment.run(after_space, SIGNS);
        return if segment.cjk == 0 {
            newlines(text, end)
        } else {
            end
        };
    }
    if SPACES.has(first) {
        return segment.blank_end(start);
    }
    segment.unmatched_end(start)
}

/// The family has no flags.
#[derive(Clone, Copy, Debug)]
pub struct DeepSeek;

/// The family, if these are its three splits.
pub fn recognise(steps: &[Step]) -> Option<Arc<dyn Known>> {
    let is_known = |(step, known): (&Step, &str)| match step {
        Step::Split {
            pattern: Pattern::Regex(regex),
            behavior: Behavior::Isolated,
            invert: false,
            ..
        } => escape_newlines(regex) == known,
        _ => false,
    };
    let known = steps.len() == SPLITS.len() && steps.iter().zip(SPLITS).all(is_known);
    known.then(|| Arc::new(DeepSeek) as _)
}

impl Known for DeepSeek {
    fn steps(&self) -> Vec<Step> {
        SPLITS.map(Step::isolate).to_vec()
    }

    fn fill(&self, path: Path, pieces: &mut Pieces, text: &[u8], ends: &mut [u32]) -> usize {
        path.fill(*self, pieces, text, ends)
    }
}

impl Roles for DeepSeek {
    const CASED: bool = false;
    const ODD_CONTROLS: bool = true;

    #[inline(always)]
    fn role(self, properties: u8) -> (u8, bool) {
        let kind = properties & 15;
        if properties & DEEPSEEK_CJK != 0 {
            return (role::APART, !LETTERS_MARKS.has(kind));
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
    #[inline(always)]
    fn piece_end(self, text: &[u8], start: usize) -> usize {
        piece_end(text, start)
    }

    /// Like cl100k, except that the only signs that can be prefixes are ASCII ones, and only of ASCII words: in
    /// those, the first letter that is not ASCII starts another piece.
    #[inline(always)]
    fn starts(self, blocks: &[Block], starts: &mut Starts) {
        let (mut words, mut lines, mut triples) =
            (NextChar::default(), Lines::default(), Triples::default());
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
            let blank_prefix = after(
                blank & !block.newline,
                before.of(role::BLANK) & !before.newline,
            );
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
                | triples.step(number)
                | apart & !after(apart, before.of(role::APART));
            starts.set(i, found, 0, block.odd);
        }
    }
}
