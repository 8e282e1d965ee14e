//! A batch of consecutive pieces: the loop in which nearly all the time is spent.
//!
//! There are two phases. The first packs each piece into a key and prefetches its cache line; the second probes the
//! lines and emits the ids. By then most lines have arrived, so memory latency is paid once per batch. The few pieces
//! in a hundred that the lines do not hold are left to `Bpe::encode_other`.

use std::ops::Range;

use super::gathered::Mark;
use super::keys::{ShortKey, READ, SHORT};
use super::packed::INLINE;
use super::segments::ROOM;
use super::spill::{Chunk, CHUNK};
use super::{Bpe, EncodeState};
#[cfg(target_arch = "x86_64")]
use crate::cpu::Cpu;

/// The keys of a batch and the indices of their lines. Batches of 128 to 320 pieces were best: as many lines as can
/// be in flight, and as many keys as fit in the first-level cache.
pub(super) struct Probes {
    keys: [ShortKey; ROOM],
    lines: [u32; ROOM],
}

impl Default for Probes {
    fn default() -> Self {
        Self { keys: [ShortKey::NONE; ROOM], lines: [0; ROOM] }
    }
}

/// Chunks of ids that may come from the spill before more room has to be reserved.
const SPARE: usize = 64;

/// Pieces that follow each other without gaps.
#[derive(Clone, Copy)]
pub(super) struct Tiles<'a> {
    pub(super) text: &'a [u8],
    /// Where the first piece starts.
    pub(super) start: usize,
    /// Where each piece ends; at most [`ROOM`] of them.
    pub(super) ends: &'a [u32],
    /// Tags that distinguish pieces with equal bytes in the cache; read only with `TAGGED`.
    pub(super) tags: &'a [u8; ROOM],
    /// What comes between pieces, in order.
    pub(super) marks: &'a [Mark],
}

impl Tiles<'_> {
    /// Returns how many pieces, counted from the first, have [`READ`] bytes of text from their start.
    #[inline(always)]
    fn inside(&self) -> usize {
        let Some(last) = self.text.len().checked_sub(READ) else {
            return 0;
        };
        if self.start > last {
            return 0;
        }
        // A piece starts where the previous one ends. All of them are checked, in vectors, so callers need not
        // promise that they are in order.
        let starts = &self.ends[..self.ends.len() - 1];
        let latest = starts.iter().fold(0, |latest, end| latest.max(*end));
        if latest as usize <= last {
            return self.ends.len();
        }
        let is_late = |end: &u32| *end as usize > last;
        1 + starts.iter().position(is_late).unwrap_or(starts.len())
    }

    /// Start, end and tag of a piece.
    fn piece<const TAGGED: bool>(&self, index: usize) -> (usize, usize, u8) {
        let before = index.checked_sub(1);
        let start = before.map_or(self.start, |before| self.ends[before] as usize);
        let tag = if TAGGED { self.tags[index] } else { 0 };
        (start, self.ends[index] as usize, tag)
    }
}

impl Bpe {
    /// Appends the ids of all tiles.
    pub(super) fn encode_batch<const TAGGED: bool>(
        &self,
        tiles: Tiles,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if Cpu::get().avx2().is_some() {
            // SAFETY: AVX2 was detected.
            return unsafe { self.encode_batch_avx2::<TAGGED>(tiles, state, out) };
        }
        self.encode_batch_any::<TAGGED>(tiles, state, out);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn encode_batch_avx2<const TAGGED: bool>(
        &self,
        tiles: Tiles,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        self.encode_batch_any::<TAGGED>(tiles, state, out);
    }

    #[inline(always)]
    fn encode_batch_any<const TAGGED: bool>(
        &self,
        tiles: Tiles,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        state.fetch::<TAGGED>(tiles);
        let mut next = 0;
        for mark in tiles.marks {
            self.emit_until::<TAGGED>(tiles, next..mark.pieces, state, out);
            next = mark.pieces;
            match mark.id {
                Some(id) => out.push(id),
                None => state.pending.end(out),
            }
        }
        self.emit_until::<TAGGED>(tiles, next..tiles.ends.len(), state, out);
    }

    /// Appends the ids of some tiles, whose lines have been prefetched.
    #[inline(always)]
    fn emit_until<const TAGGED: bool>(
        &self,
        tiles: Tiles,
        range: Range<usize>,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let Range { start: mut next, end: count } = range;
        while next < count {
            out.reserve((count - next) * INLINE + SPARE * CHUNK);
            // SAFETY: room for the lanes of all pieces from `next` on, and for the spare chunks, was just reserved.
            let index = unsafe { state.emit::<TAGGED>(tiles, next..count, out) };
            if index < count {
                let (start, end, tag) = tiles.piece::<TAGGED>(index);
                self.encode_other(tiles.text, start, end, tag, state, out);
            }
            next = index + 1;
        }
    }
}

impl EncodeState {
    /// The first phase: builds the keys and prefetches their lines.
    #[inline(always)]
    fn fetch<const TAGGED: bool>(&mut self, tiles: Tiles) {
        let (safe, count) = (tiles.inside(), tiles.ends.len());
        let start = self.fetch_some::<TAGGED>(tiles, 0..safe, tiles.start, |text, at, len, tag| {
            // SAFETY: `Tiles::inside` guarantees `READ` bytes of text for these pieces.
            unsafe { ShortKey::inside(text, at, len, tag) }
        });
        if safe < count {
            self.fetch_some::<TAGGED>(tiles, safe..count, start, ShortKey::new);
        }
    }

    /// Does the same for a range of pieces, the first of which starts at `at`, and returns the end of the last.
    #[inline(always)]
    fn fetch_some<const TAGGED: bool>(
        &mut self,
        tiles: Tiles,
        range: Range<usize>,
        mut at: usize,
        key_of: impl Fn(&[u8], usize, usize, u8) -> ShortKey,
    ) -> usize {
        let Probes { keys, lines } = &mut *self.batch;
        let table = self.cache.lines.view();
        let ends = tiles.ends[range.clone()].iter();
        let slots = keys[range.clone()].iter_mut().zip(&mut lines[range.clone()]);
        for ((end, (key, line)), tag) in ends.zip(slots).zip(&tiles.tags[range]) {
            let tag = if TAGGED { *tag } else { 0 };
            let len = *end as usize - at;
            if len <= SHORT {
                let found = key_of(tiles.text, at, len, tag);
                *key = found;
                *line = table.line_of(found);
                table.prefetch(*line);
            } else {
                *key = ShortKey::NONE;
                *line = 0;
                self.cache.prefetch_long(tiles.text, at, len, tag);
            }
            at = *end as usize;
        }
        at
    }

    /// The second phase: appends the ids of a range of pieces up to the first one that is not found at once; returns the
    /// index of that piece, or the end of the range.
    ///
    /// # Safety
    /// `out` must have room for [`INLINE`] ids for each of these pieces, and for [`SPARE`] chunks.
    #[inline(always)]
    unsafe fn emit<const TAGGED: bool>(
        &self,
        tiles: Tiles,
        range: Range<usize>,
        out: &mut Vec<u32>,
    ) -> usize {
        let Probes { keys, lines } = &*self.batch;
        let table = self.cache.lines.view();
        let start = out.as_mut_ptr();
        let mut len = out.len();
        let (mut stop, mut spare) = (range.end, SPARE);
        for index in range.start..range.end.min(ROOM) {
            // SAFETY: `fetch` has set the line of each key with `line_of`, or to 0.
            let Some(found) = (unsafe { table.probe(lines[index], keys[index]) }) else {
                let (at, end, tag) = tiles.piece::<TAGGED>(index);
                let long = self.cache.probe_long(tiles.text, at, end - at, tag);
                let Some((ids, count)) = long.filter(|_| spare > 0) else {
                    stop = index;
                    break;
                };
                // SAFETY: the caller's promise, of whose spare chunks this is one.
                unsafe { start.add(len).cast::<Chunk>().write_unaligned(ids) };
                spare -= 1;
                len += count;
                continue;
            };
            let count = found.count();
            if count <= INLINE {
                // SAFETY: the caller's promise; each piece so far has added to `len` at most its lanes, or chunks
                // from the spare room.
                unsafe { found.write(start.add(len)) };
                len += count;
                continue;
            }
            let spilled = self.cache.spilled(*found);
            let Some((chunks, count)) = spilled.filter(|(chunks, _)| chunks.len() <= spare) else {
                stop = index;
                break;
            };
            for (at, chunk) in chunks.iter().enumerate() {
                // SAFETY: as above; `spare` was large enough for these chunks.
                unsafe {
                    let place = start.add(len + at * CHUNK).cast::<Chunk>();
                    place.write_unaligned(*chunk);
                }
            }
            spare -= chunks.len();
            len += count;
        }
        // SAFETY: everything below `len` was written above.
        unsafe { out.set_len(len) };
        stop
    }
}
