//! A whole encoder: pieces in, ids out.
//!
//! Two phases per batch of pieces. The first packs each piece into a key and fetches its cache line; the
//! second probes and emits. By then most lines have arrived, so the latency of memory is paid once a batch.

use super::cache::LANES;
use super::keys::{long_key, short_key, LONG, SHORT};
use super::tables::Tables;
use super::words::Words;
use super::{EncodeState, Pieces, VocabSpec, Vocabulary, WordCut};
use crate::scan::Scanner;
use crate::Result;

/// Pieces per batch: 128 to 256 were best, as many as lines in flight and keys in the first-level cache.
const BATCH: usize = 256;
/// A key that no slot holds: its piece is too long for the short probe.
const NOT_SHORT: u128 = u128::MAX;

/// An exact byte-pair encoder; immutable, shared by threads.
pub struct Bpe {
    tables: Tables,
}

impl Bpe {
    /// Checks a vocabulary and builds the tables.
    pub fn new(spec: VocabSpec) -> Result<Self> {
        Ok(Self {
            tables: Tables::new(spec)?,
        })
    }

    /// All tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.tables.vocabulary
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Appends the ids of `text`, cut into pieces by `scanner`: `"hello world" -> [15339, 1917]`.
    pub fn encode(
        &self,
        scanner: &Scanner,
        text: &str,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        self.encode_pieces(scanner.spans(text), text, state, out)
    }

    /// Appends the ids of SentencePiece-style text, in which the word marker is written as a space.
    pub fn encode_words(
        &self,
        text: &str,
        cut: WordCut,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let cut = if cut == WordCut::Runs {
            self.tables.word_cut
        } else {
            cut
        };
        self.encode_pieces(Words::new(text, cut), text, state, out)
    }

    /// Appends the ids of `text`, whose pieces come from `pieces`.
    pub fn encode_pieces(
        &self,
        mut pieces: impl Pieces,
        text: &str,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let text = text.as_bytes();
        let mut ends = [0; BATCH];
        let mut start = 0;
        loop {
            let count = pieces.fill(&mut ends)?;
            if count == 0 {
                return Ok(());
            }
            let ends = &ends[..count];
            if pieces.drops_text() {
                for (index, end) in ends.iter().enumerate() {
                    if pieces.kept(index) {
                        self.encode_other(text, start, *end as usize, state, out);
                    }
                    start = *end as usize;
                }
            } else {
                start = self.encode_batch(text, start, ends, state, out);
            }
        }
    }

    /// Encodes the pieces that end at `ends`, the first of which starts at `start`; gives the last end.
    fn encode_batch(
        &self,
        text: &[u8],
        start: usize,
        ends: &[u32],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> usize {
        let mut keys = [NOT_SHORT; BATCH];
        let mut buckets = [0u32; BATCH];
        let mut at = start;
        for ((end, key), bucket) in ends.iter().zip(&mut keys).zip(&mut buckets) {
            let len = *end as usize - at;
            if len <= SHORT {
                *key = short_key(text, at, len, 0);
                *bucket = state.cache.bucket_of(*key) as u32;
                state.cache.prefetch(*bucket as usize);
            } else if len <= LONG {
                state.cache.prefetch_long(long_key(text, at, len, 0));
            }
            at = *end as usize;
        }
        out.reserve(ends.len() * LANES);
        let mut at = start;
        for (index, end) in ends.iter().enumerate() {
            let end = *end as usize;
            if let Some((ids, count)) = state.cache.probe(buckets[index] as usize, keys[index]) {
                // SAFETY: room for all lanes of all pieces left was reserved; `count` lanes are ids.
                unsafe { push_lanes(out, ids, count) };
            } else {
                self.encode_other(text, at, end, state, out);
                out.reserve((ends.len() - index) * LANES);
            }
            at = end;
        }
        at
    }

    /// A piece that is long, or that the short probe did not find.
    #[inline(never)]
    fn encode_other(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let len = end - start;
        if len == 0 || state.cache.find(text, start, len, 0, out) {
            return;
        }
        let first = out.len();
        let piece = &text[start..end];
        match self.tables.whole.get(piece) {
            Some(id) => out.push(*id),
            None => self.tables.merge(piece, &mut state.scratch, out),
        }
        state.cache.insert(text, start, len, 0, &out[first..]);
    }
}

/// Writes all lanes and counts only some: no branch on how many ids a piece has.
///
/// # Safety
/// `out` has room for `LANES` more, and `count <= LANES`.
#[inline(always)]
unsafe fn push_lanes(out: &mut Vec<u32>, ids: [u32; LANES], count: usize) {
    debug_assert!(count <= LANES && out.capacity() - out.len() >= LANES);
    let len = out.len();
    // SAFETY: the caller promises the room and the count.
    unsafe {
        out.as_mut_ptr()
            .add(len)
            .cast::<[u32; LANES]>()
            .write_unaligned(ids);
        out.set_len(len + count);
    }
}
