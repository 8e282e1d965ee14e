//! A whole encoder: pieces in, ids out.

use std::ops::Range;
use std::sync::OnceLock;

use super::batch::Tiles;
use super::cuts::{is_never_cut, Cuts};
use super::decode::Slots;
use super::gathered::{Gathered, Mark};
use super::keys::{Key as PieceKey, LONG};
use super::pending::Pending;
use super::segments::{Cutter, Segments, ROOM};
use super::tables::Tables;
use super::{EncodeState, Pieces, Unknown, VocabSpec, Vocabulary, Writer};
use crate::scan::Scanner;
use crate::Result;

/// Pieces up to this length are looked up whole: short words repeat, and cutting costs a walk. Measured on Korean and
/// Chinese with three vocabularies: 9 to 15 are best.
const UNCUT: usize = 12;
/// Bytes of pieces that could have been cut before the tables for it are built: without them such a byte costs some 30 ns
/// more (an estimate), so this many cost a tenth of what the tables do.
pub(super) const WORTH_CUTTING: usize = 64 << 10;
/// Tag of a segment that is not a whole piece, for vocabularies in which whole pieces have ids of their own.
pub(crate) const SEGMENT: u8 = 0x40;

/// How the ids of a piece are made that are not in the cache; the module's documentation lists all routes.
enum Route {
    /// The piece is a token that merges do not make.
    Whole(u32),
    /// Short: deferred, and merged side by side with other pieces.
    Together,
    /// Long: merged at once.
    Alone,
}

/// An exact byte-pair encoder; immutable, shared by threads.
pub struct Bpe {
    tables: Tables,
    cuts: OnceLock<Option<Cuts>>,
    /// What decoding needs, built when something is first decoded.
    pub(crate) slots: OnceLock<Slots>,
}

impl Bpe {
    /// Checks a vocabulary and builds the tables.
    pub fn new(spec: &VocabSpec) -> Result<Self> {
        Ok(Self { tables: Tables::new(spec)?, cuts: OnceLock::new(), slots: OnceLock::new() })
    }

    /// Returns all tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.tables.vocabulary
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns whether a character is a token, in a model of characters.
    pub fn knows(&self, character: char) -> bool {
        self.tables.symbols.knows(character)
    }

    /// Returns whether a byte is a token, in a model of bytes.
    pub fn knows_byte(&self, byte: u8) -> bool {
        !self.tables.gaps.as_ref().is_some_and(|gaps| gaps.has(byte))
    }

    /// Returns the token for bytes or characters that are not tokens.
    pub fn unknown(&self) -> Option<Unknown> {
        self.tables.unknown
    }

    /// Returns a writer that appends ids to `out`, with the state of one thread.
    pub fn writer<'a>(&'a self, state: &'a mut EncodeState, out: &'a mut Vec<u32>) -> Writer<'a> {
        Writer::new(self, state, out)
    }

    /// Appends the ids of pieces; those of pieces not in the cache may be missing until [`Self::finish`].
    pub(super) fn encode_filled(
        &self,
        pieces: &mut impl Pieces,
        text: &str,
        room: &mut [u32],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let mut start = 0;
        loop {
            let count = pieces.fill(room)?;
            if count == 0 {
                self.join_words(state, out);
                return Ok(());
            }
            let ends = &room[..count];
            if pieces.drops_text() {
                for (index, end) in ends.iter().enumerate() {
                    if pieces.kept(index) {
                        self.encode_other(text.as_bytes(), start, *end as usize, 0, state, out);
                    }
                    start = *end as usize;
                }
            } else if self.has_phrases(start, ends) {
                self.encode_phrases(text, start, ends, state, out)?;
                start = ends[count - 1] as usize;
            } else {
                start = self.encode_tiles(text.as_bytes(), start, ends, state, out);
            }
        }
    }

    /// Encodes consecutive pieces without gaps; returns the end of the last.
    #[inline(always)]
    fn encode_tiles(
        &self,
        text: &[u8],
        start: usize,
        ends: &[u32],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> usize {
        let end = ends[ends.len() - 1] as usize;
        if self.tables.cuts_ascii() || !text[start..end].is_ascii() {
            if let Some(cuts) = self.cuts(text, start, ends, state) {
                if are_cut(cuts, text, start, ends) {
                    self.encode_cut(cuts, text, start, ends, state, out);
                    return end;
                }
            }
        }
        let tags = &[0; ROOM];
        let tiles = Tiles { text, start, ends, tags, marks: &[] };
        self.encode_batch::<false>(tiles, state, out);
        end
    }

    /// The same for pieces some of which are not ASCII: those are cut where that is exact.
    fn encode_cut(
        &self,
        cuts: &Cuts,
        text: &[u8],
        start: usize,
        ends: &[u32],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let tag = if self.tables.whole.is_empty() { 0 } else { SEGMENT };
        let mut segments = Segments::new(start);
        let mut at = start;
        for end in ends {
            let end = *end as usize;
            if !is_cut(cuts, text, at..end) {
                if segments.count == ROOM {
                    self.encode_segments(text, &mut segments, &[], state, out);
                }
                segments.push(end, 0);
                at = end;
                continue;
            }
            let mut cutter = Cutter::new((cuts, &self.tables), text, at..end, tag);
            while !cutter.run(&mut segments) {
                self.encode_segments(text, &mut segments, &[], state, out);
            }
            at = end;
        }
        self.encode_segments(text, &mut segments, &[], state, out);
    }

    pub(super) fn encode_segments(
        &self,
        text: &[u8],
        segments: &mut Segments,
        marks: &[Mark],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let (ends, tags) = (&segments.ends[..segments.count], &segments.tags);
        if let Some(end) = ends.last() {
            let end = *end as usize;
            let tiles = Tiles { text, start: segments.start, ends, tags, marks };
            self.encode_batch::<true>(tiles, state, out);
            segments.clear(end);
        }
    }

    /// Defers a short ASCII text; returns `false` if it is not one.
    pub(super) fn gather(
        &self,
        scanner: &Scanner,
        text: &str,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<bool> {
        if !Gathered::takes(text) || !scanner.tiles() || !text.is_ascii() {
            return Ok(false);
        }
        if !state.gathered.has_room(text) {
            self.encode_gathered(state, out);
        }
        state.gathered.push(scanner, text)?;
        Ok(true)
    }

    /// Appends the ids of all deferred texts.
    pub(super) fn encode_gathered(&self, state: &mut EncodeState, out: &mut Vec<u32>) {
        if state.gathered.is_empty() {
            return;
        }
        // Taken out of the state, which is borrowed meanwhile.
        let mut gathered = std::mem::take(&mut state.gathered);
        gathered.pad();
        let tiles = Tiles {
            text: &gathered.text,
            start: 0,
            ends: &gathered.ends[..gathered.count],
            tags: &[0; ROOM],
            marks: &gathered.marks,
        };
        self.encode_batch::<false>(tiles, state, out);
        gathered.clear();
        state.gathered = gathered;
    }

    /// Returns the tables that prove cuts exact. Building them takes milliseconds, so it waits until as much text could have been
    /// cut as makes up for it: a few lines, French, and code with a foreign word now and then, never do.
    fn cuts(
        &self,
        text: &[u8],
        mut start: usize,
        ends: &[u32],
        state: &mut EncodeState,
    ) -> Option<&Cuts> {
        if let Some(cuts) = self.cuts.get() {
            return cuts.as_ref();
        }
        for end in ends {
            let piece = &text[start..*end as usize];
            if piece.len() > UNCUT && (self.tables.cuts_ascii() || !is_never_cut(piece)) {
                state.uncut += piece.len();
            }
            start = *end as usize;
        }
        if state.uncut < WORTH_CUTTING {
            return None;
        }
        self.cuts.get_or_init(|| Cuts::new(&self.tables)).as_ref()
    }

    /// Encodes a piece that the batch did not find in the cache.
    #[inline(never)]
    pub(super) fn encode_other(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        tag: u8,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let (piece, len) = (&text[start..end], end - start);
        if len == 0 || state.cache.find(text, start, len, tag, out) {
            return;
        }
        let first = out.len();
        match self.route(piece, tag) {
            Route::Whole(id) => out.push(id),
            Route::Together => {
                let key = PieceKey::new(text, start, len, tag);
                if state.pending.push(&self.tables, piece, key, first) {
                    self.finish(state, out);
                }
                return;
            }
            Route::Alone => self.tables.merge(piece, &mut state.scratch, out),
        }
        if len <= LONG {
            let key = PieceKey::new(text, start, len, tag);
            state.cache.insert(key, &out[first..]);
        } else {
            state.cache.insert_longer(piece, tag, &out[first..]);
        }
    }

    fn route(&self, piece: &[u8], tag: u8) -> Route {
        match self.tables.whole.get(piece) {
            Some(id) if tag == 0 => Route::Whole(*id),
            _ if Pending::takes(piece.len()) => Route::Together,
            _ => Route::Alone,
        }
    }

    /// Puts the ids that are still missing where they belong in `out`.
    pub(super) fn finish(&self, state: &mut EncodeState, out: &mut Vec<u32>) {
        let EncodeState { cache, pending, .. } = state;
        if !pending.is_empty() {
            pending.flush(&self.tables, cache, out);
        }
    }
}

/// Returns whether any of these pieces may be cut.
#[inline(always)]
fn are_cut(cuts: &Cuts, text: &[u8], mut start: usize, ends: &[u32]) -> bool {
    ends.iter().any(|end| {
        let piece = start..*end as usize;
        start = piece.end;
        is_cut(cuts, text, piece)
    })
}

/// Returns whether a piece may be cut.
#[inline(always)]
fn is_cut(cuts: &Cuts, text: &[u8], piece: Range<usize>) -> bool {
    piece.len() > UNCUT && !cuts.leaves_whole(&text[piece])
}
