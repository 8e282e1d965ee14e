//! Pieces that the cache does not know, put off until several can be merged together.
//!
//! The output goes on without them; when there are enough, or the text is done, they are merged side by
//! side, remembered, and spliced in where they belong. A piece that comes again meanwhile is merged once.

use super::cache::Cache;
use super::merge_short::CAPACITY;
use super::merge_together::{merge, Word, WORDS};
use super::tables::Tables;

/// Places that wait at most: more than words, as words come again.
const PLACES: usize = 4 * WORDS;

/// A piece of the text, and what keeps it apart from equal bytes in the cache.
#[derive(Clone, Copy, Default)]
struct Piece {
    start: usize,
    len: usize,
    tag: u8,
}

/// Where in the output the ids of a word are missing.
#[derive(Clone, Copy, Default)]
struct Place {
    at: usize,
    word: usize,
}

/// What waits, of one text and one output.
#[derive(Default)]
pub(crate) struct Pending {
    pieces: [Piece; WORDS],
    words: usize,
    places: [Place; PLACES],
    count: usize,
}

impl Pending {
    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.words = 0;
        self.count = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a piece can be put off at all.
    pub(crate) fn takes(len: usize) -> bool {
        len <= CAPACITY
    }

    /// Puts off `text[start..start + len]`, whose ids belong at `at`; `true` if there is no more room.
    pub(crate) fn push(
        &mut self,
        text: &[u8],
        start: usize,
        len: usize,
        tag: u8,
        at: usize,
    ) -> bool {
        let bytes = |piece: &Piece| &text[piece.start..piece.start + piece.len];
        let piece = Piece { start, len, tag };
        let known = self.pieces[..self.words]
            .iter()
            .position(|other| other.tag == tag && bytes(other) == bytes(&piece));
        let word = known.unwrap_or(self.words);
        if known.is_none() {
            self.pieces[word] = piece;
            self.words += 1;
        }
        self.places[self.count] = Place { at, word };
        self.count += 1;
        self.words == WORDS || self.count == PLACES
    }

    /// Merges everything that waits, remembers it, and puts it where it belongs in `out`.
    pub(crate) fn flush(
        &mut self,
        tables: &Tables,
        letters: &[u32; 256],
        text: &[u8],
        cache: &mut Cache,
        out: &mut Vec<u32>,
    ) {
        let mut words = [Word::EMPTY; WORDS];
        let words = &mut words[..self.words];
        let mut longest = 0;
        for (word, piece) in words.iter_mut().zip(&self.pieces) {
            word.start(tables, letters, &text[piece.start..][..piece.len]);
            longest = longest.max(piece.len);
        }
        merge(&tables.pairs, words, longest);
        let mut counts = [0; WORDS];
        for ((word, piece), count) in words.iter_mut().zip(&self.pieces).zip(&mut counts) {
            *count = word.finish(&tables.ids);
            let ids = &word.ids()[..*count];
            cache.insert(text, piece.start, piece.len, piece.tag, ids);
        }
        self.splice(words, &counts, out);
        self.clear();
    }

    /// Moves the output apart from its end on, so that every id moves once.
    fn splice(&self, words: &[Word], counts: &[usize; WORDS], out: &mut Vec<u32>) {
        let places = &self.places[..self.count];
        let mut from = out.len();
        let missing: usize = places.iter().map(|place| counts[place.word]).sum();
        out.resize(from + missing, 0);
        let mut to = out.len();
        for place in places.iter().rev() {
            to -= from - place.at;
            out.copy_within(place.at..from, to);
            from = place.at;
            let ids = &words[place.word].ids()[..counts[place.word]];
            to -= ids.len();
            out[to..to + ids.len()].copy_from_slice(ids);
        }
    }
}
