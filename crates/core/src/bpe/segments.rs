//! Pieces refined into segments: what the cache sees of text that is not ASCII.

use std::ops::Range;

use super::cuts::Cuts;
use super::tables::Tables;

/// Segments that are gathered before they are encoded: 256, plus as many as one block of text can have, as the scan
/// adds a block at once.
pub(crate) const ROOM: usize = 256 + 64;

/// Ends of consecutive segments, with the tag that keeps segments and whole pieces apart in the cache.
pub(crate) struct Segments {
    pub(crate) start: usize,
    pub(crate) ends: [u32; ROOM],
    pub(crate) tags: [u8; ROOM],
    pub(crate) count: usize,
}

impl Segments {
    pub(crate) fn new(start: usize) -> Self {
        Self { start, ends: [0; ROOM], tags: [0; ROOM], count: 0 }
    }

    /// Forgets all segments; the next starts at `start`.
    pub(crate) fn clear(&mut self, start: usize) {
        self.start = start;
        self.count = 0;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, end: usize, tag: u8) {
        self.ends[self.count] = end as u32;
        self.tags[self.count] = tag;
        self.count += 1;
    }
}

/// A walk along one piece that stops at each safe cut.
pub(crate) struct Cutter<'a> {
    cuts: &'a Cuts,
    tables: &'a Tables,
    text: &'a [u8],
    at: usize,
    end: usize,
    /// The character before `at`, and its edge groups.
    last: (u32, u16),
    tag: u8,
    was_cut: bool,
}

impl<'a> Cutter<'a> {
    /// Creates a piece that is not empty; `tag` marks segments that are not whole pieces.
    #[inline(always)]
    pub(crate) fn new(
        (cuts, tables): (&'a Cuts, &'a Tables),
        text: &'a [u8],
        piece: Range<usize>,
        tag: u8,
    ) -> Self {
        let (code, len) = decode(text, piece.start);
        Self {
            cuts,
            tables,
            text,
            at: piece.start + len,
            end: piece.end,
            last: (code, cuts.edges_of(tables, code)),
            tag,
            was_cut: false,
        }
    }

    /// Adds segments until the piece is done (`true`) or there is no more room (`false`).
    #[inline(always)]
    pub(crate) fn run(&mut self, segments: &mut Segments) -> bool {
        let mut count = segments.count;
        while self.at < self.end && count < ROOM {
            let (code, len) = decode(self.text, self.at);
            let next = (code, self.cuts.edges_of(self.tables, code));
            let cut = if (self.last.0 | code) < 0x80 {
                self.cuts.is_safe_ascii(self.last.0, code)
            } else {
                self.cuts.is_safe(self.last, next)
            };
            // Where a text can be cut is unpredictable, so there is no branch: the end is always written, and counted
            // only if it is one.
            segments.ends[count] = self.at as u32;
            segments.tags[count] = self.tag;
            count += usize::from(cut);
            self.was_cut |= cut;
            self.last = next;
            self.at += len;
        }
        segments.count = count;
        if count == ROOM {
            return false;
        }
        segments.push(self.end, if self.was_cut { self.tag } else { 0 });
        true
    }
}

/// Returns the character at a boundary of valid UTF-8, and its length.
#[inline(always)]
fn decode(text: &[u8], at: usize) -> (u32, usize) {
    let byte = |offset: usize| u32::from(text[at + offset]);
    let low = |offset: usize| byte(offset) & 0x3F;
    match byte(0) {
        first @ 0xE0..0xF0 => (((first & 0x0F) << 12) | (low(1) << 6) | low(2), 3),
        first @ 0..0x80 => (first, 1),
        first @ 0x80..0xE0 => (((first & 0x1F) << 6) | low(1), 2),
        first => (((first & 0x07) << 18) | (low(1) << 12) | (low(2) << 6) | low(3), 4),
    }
}
