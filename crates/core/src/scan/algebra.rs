//! Piece starts from class masks: the `u64` steps that the families share.
//!
//! Every step sees one block with its neighbours and carries state from block to block where it must. A window starts
//! at a piece start, so there is nothing before its first block.

use super::block::{role, Block};

/// The mask moved one byte forward: bit `i` says what byte `i - 1` was.
#[inline(always)]
pub fn after(mask: u64, before: u64) -> u64 {
    mask << 1 | before >> 63
}

/// The mask moved one byte back: bit `i` says what byte `i + 1` is.
#[inline(always)]
pub fn ahead(mask: u64, next: u64) -> u64 {
    mask >> 1 | next << 63
}

/// Finds where the character after each marked one starts.
#[derive(Default)]
pub struct NextChar {
    seeds: u64,
    carry: bool,
}

impl NextChar {
    /// `starts` marks first bytes of characters, `inner` all bytes that continue one. Adding a bit
    /// to a run of ones moves it to the first zero after the run.
    #[inline(always)]
    pub fn step(&mut self, starts: u64, inner: u64) -> u64 {
        let seeds = after(starts, self.seeds);
        self.seeds = starts;
        let (sum, first) = inner.overflowing_add(seeds);
        let (sum, second) = sum.overflowing_add(u64::from(self.carry));
        self.carry = first | second;
        sum & !inner
    }
}

/// Extends marks through runs: every bit of `mask` that follows a seed without a gap.
#[derive(Default)]
pub struct Flood {
    reached: u64,
}

impl Flood {
    /// `seeds` must be bits of `mask`.
    #[inline(always)]
    pub fn step(&mut self, mask: u64, seeds: u64) -> u64 {
        let seeds = seeds | self.reached >> 63 & mask;
        self.reached = mask & !mask.wrapping_add(seeds);
        self.reached
    }
}

/// `\p{N}{1,limit}` over ASCII digits: the starts of the groups.
#[derive(Default)]
pub struct Groups {
    numbers: u64,
    starts: u64,
}

impl Groups {
    /// The starts among `numbers`; a `limit` of 64 or more means no limit.
    #[inline(always)]
    pub fn step(&mut self, numbers: u64, limit: u8) -> u64 {
        let back = |k: u8| numbers << k | self.numbers >> (64 - k);
        let mut starts = numbers & !back(1);
        if limit < 64 {
            let long = (1..=limit).fold(numbers, |long, k| long & back(k));
            let mut more = (starts << limit | self.starts >> (64 - limit)) & long;
            while more != 0 {
                starts |= more;
                more = more << limit & long;
            }
        }
        (self.numbers, self.starts) = (numbers, starts);
        starts
    }
}

/// White space of the families with `\s*[\r\n]+`.
#[derive(Default)]
pub struct Lines {
    swallowed: Flood,
    own: u64,
}

/// What [`Lines::step`] finds in a block.
pub struct LineStarts {
    /// Piece starts among the white space.
    pub starts: u64,
    /// Newlines that belong to the punctuation before them.
    pub swallowed: u64,
}

impl Lines {
    /// `blocks` starts with the block before the current one; `signs` are the bytes of punctuation that takes
    /// newlines along, moved one byte forward; `last` is the last white space before something else.
    #[inline(always)]
    pub fn step(&mut self, blocks: &[Block], signs: u64, last: u64, tail: bool) -> LineStarts {
        let (before, block) = (&blocks[0], &blocks[1]);
        let blank = block.of(role::BLANK);
        let newline = block.newline;
        let swallowed = self.swallowed.step(newline, newline & signs);
        let own = blank & !swallowed;
        let mut starts = own & !after(own, self.own) | last & !newline;
        self.own = own;
        // What follows the last newline of the run is a piece of its own.
        let mut indents = blank & !newline & after(newline, before.newline);
        while indents != 0 {
            let bit = indents & indents.wrapping_neg();
            indents ^= bit;
            if !(starts & bit != 0 || newline_follows(&blocks[1..], bit.trailing_zeros(), tail)) {
                starts |= bit;
            }
        }
        LineStarts { starts, swallowed }
    }
}

/// What cl100k and o200k have in common: everything except where words start.
#[derive(Default)]
pub struct Common {
    prefixes: NextChar,
    lines: Lines,
    groups: Groups,
}

/// What [`Common::step`] finds in a block.
pub struct CommonStarts {
    /// Starts of punctuation, lines and numbers.
    pub starts: u64,
    /// Starts of punctuation alone.
    pub signs: u64,
    /// Bytes that follow a byte of punctuation.
    pub after_signs: u64,
    /// Where a letter is preceded by its prefix: one other character that starts a piece itself, or white space that
    /// is not a newline.
    pub prefixed: u64,
    /// Newlines that belong to the punctuation before them.
    pub swallowed: u64,
}

impl Common {
    /// `blocks` starts with the block before the current one; a number piece has up to `digits` numbers; with
    /// `tail`, white space at the end of the text is one piece.
    #[inline(always)]
    pub fn step(&mut self, blocks: &[Block], digits: u8, tail: bool) -> CommonStarts {
        let (before, block, next) = (&blocks[0], &blocks[1], &blocks[2]);
        let (blank, other) = (block.of(role::BLANK), block.other());
        let after_signs = after(other, before.other());
        let signs = other & !after_signs & !after(block.space, before.space);
        let blank_prefix = after(blank & !block.newline, before.of(role::BLANK) & !before.newline);
        let last = blank & !block.high & !ahead(blank, next.of(role::BLANK)) | block.last_wide;
        let lines = self.lines.step(blocks, after_signs, last, tail);
        let number = block.of(role::NUMBER);
        let numbers =
            if digits == 1 { number & !block.inner } else { self.groups.step(number, digits) };
        CommonStarts {
            starts: signs | lines.starts | numbers,
            signs,
            after_signs,
            prefixed: self.prefixes.step(signs, block.inner) | blank_prefix,
            swallowed: lines.swallowed,
        }
    }
}

/// Whether the white space from `bit` of the first block leads to a newline, or (with `tail`) to the end of the text.
#[inline(always)]
fn newline_follows(blocks: &[Block], bit: u32, tail: bool) -> bool {
    let mut from = bit;
    for block in blocks {
        let run = block.of(role::BLANK) & !block.newline;
        let place = from + (!(run >> from)).trailing_zeros();
        if place < 64 {
            return block.newline >> place & 1 == 1;
        }
        from = 0;
    }
    tail
}
