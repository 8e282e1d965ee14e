//! o200k and its relatives (GPT-4o, Llama-4, tekken, Kimi-K2), with U = `[\p{Lu}\p{Lt}]`, l = `\p{Ll}`
//! and B = `[\p{Lm}\p{Lo}\p{M}]`, which counts as both:
//! `[^\r\n\p{L}\p{N}]?[UB]*[lB]+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?[UB]+[lB]*(?i:'s|…)?|\p{N}{1,3}|`
//! ` ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`. Kimi has `\p{Han}+` first and takes Han out
//! of U, l and B.

use std::sync::Arc;

use super::algebra::{after, Common};
use super::block::{role, Block, Roles};
use super::classes::{char_at, class, ClassSet, HAN, LETTERS, OTHERS};
use super::known::Known;
use super::path::Path;
use super::patterns::{self, digits, one_regex, take, take_digits, LINES, SHORT_ANY_CASE};
use super::pieces::Pieces;
use super::runs::{blank, byte_run, contraction_any_case, numbers, run};
use super::spec::{Dialect, Step};
use super::window::{Family, Starts};

/// Words that end in lower case, and words that begin in upper case.
const WORDS: [&str; 2] = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
];
/// What Kimi-K2 has in place of the end of a letter class.
const NOT_HAN: &str = r"\p{M}&&[^\p{Han}]]";
/// Kimi-K2's first alternative.
const HAN_RUN: &str = r"[\p{Han}]+";
/// Punctuation with newlines and slashes after it.
const SLASHES: &[&str] = &[r" ?[^\s\p{L}\p{N}]+[\r\n/]*"];

/// Flags of the family.
#[derive(Clone, Copy, Debug)]
pub struct O200k {
    /// A word takes a following `'s`, `'ll`… along.
    pub contractions: bool,
    /// The longest run of numbers in one piece: 1 (tekken) or 3.
    pub digits: u8,
    /// Punctuation takes following slashes along, like newlines.
    pub slash: bool,
    /// Han runs are pieces of their own (Kimi-K2).
    pub han: bool,
}

/// The flags of a chain that is one of the known ones.
pub fn recognise(steps: &[Step]) -> Option<Arc<dyn Known>> {
    let (regex, dialect) = one_regex(steps)?;
    Some(Arc::new(flags_of(&regex, dialect)?))
}

fn flags_of(regex: &str, dialect: Dialect) -> Option<O200k> {
    let (han, rest) = match take(regex, &[HAN_RUN]) {
        Some(rest) => (true, rest),
        None => (false, regex),
    };
    let (contractions, rest) = [true, false].into_iter().find_map(|contractions| {
        Some((
            contractions,
            take(rest, &[words(contractions, han).as_str()])?,
        ))
    })?;
    let (digits, rest) = take_digits(rest, dialect)?;
    let (slash, rest) = match take(rest, SLASHES) {
        Some(rest) => (true, rest),
        None => (false, take(rest, patterns::OTHERS)?),
    };
    LINES.contains(&rest).then_some(O200k {
        contractions,
        digits,
        slash,
        han,
    })
}

/// Both word alternatives, with contractions or without, Han taken out or not.
fn words(contractions: bool, han: bool) -> String {
    let words = WORDS.map(|word| {
        let mut word = word.to_owned();
        if han {
            word = word.replace(r"\p{M}]", NOT_HAN);
        }
        if contractions {
            word.extend([SHORT_ANY_CASE[0], "?"]);
        }
        word
    });
    words.join("|")
}

impl Known for O200k {
    fn steps(&self) -> Vec<Step> {
        let words = words(self.contractions, self.han);
        let others = if self.slash {
            SLASHES
        } else {
            patterns::OTHERS
        };
        let mut alternatives = vec![words.as_str(), digits(self.digits), others[0], LINES[0]];
        if self.han {
            alternatives.insert(0, HAN_RUN);
        }
        vec![Step::isolate(alternatives.join("|"))]
    }

    fn fill(&self, path: Path, pieces: &mut Pieces, text: &[u8], ends: &mut [u32]) -> usize {
        path.fill(*self, pieces, text, ends)
    }
}

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
    // The first character may be a mark: then it can be the word itself instead of its prefix.
    if first & 15 == class::MARK {
        let upper = cased_run(flags, text, start, UPPER_BOTH);
        return lower_tail(flags, text, start, upper);
    }
    (upper > body).then_some(upper)
}

/// `[UB]*[lB]+` from `body`, where `upper` is the end of the longest `[UB]*`. If no lower-case letter follows, the
/// regex gives characters back until the last one in B can match `[lB]+`.
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
            class::NUMBER => (role::NUMBER, self.digits != 1),
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

    #[inline(always)]
    fn ends_blank(self, _: u8) -> bool {
        false
    }
}

impl Family for O200k {
    #[inline(always)]
    fn piece_end(self, text: &[u8], start: usize) -> usize {
        piece_end(self, text, start)
    }

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
            let quotes = if self.contractions {
                block.quote & found.signs & letters
            } else {
                0
            };
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
        let short = contraction_any_case(text, at);
        (short > 0 && at != previous).then_some((at, at + short))
    }
}
