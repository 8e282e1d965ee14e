//! Pieces that are not in the cache, deferred until several can be merged together.
//!
//! The output continues without them, even into the next texts; when there are enough, or all texts are done, they
//! are merged side by side, cached, and spliced in where they belong. A piece that occurs again in the meantime is
//! merged once.

use super::cache::Cache;
use super::keys::Key;
use super::merge_together::{merge, Word, CAPACITY, MOST, WORDS};
use super::tables::Tables;

/// The most places that may wait: more than words, as words repeat.
const PLACES: usize = 4 * WORDS;

/// Where in the output the ids of a word are missing.
#[derive(Clone, Copy, Default)]
struct Missing {
    at: usize,
    word: usize,
    /// Texts that had ended before it.
    ended: usize,
}

/// The deferred pieces of one output.
pub(crate) struct Pending {
    keys: [Key; WORDS],
    words: [Word; WORDS],
    count: usize,
    /// The ids of the words, while they are put where they belong.
    made: [[u32; CAPACITY]; WORDS],
    /// The symbols of a piece while it is being deferred.
    symbols: Vec<u32>,
    places: [Missing; PLACES],
    placed: usize,
    /// Where each text ends in the output as it is now.
    ends: Vec<usize>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            keys: [Key::NONE; WORDS],
            words: [Word::EMPTY; WORDS],
            count: 0,
            made: [[0; CAPACITY]; WORDS],
            symbols: Vec::new(),
            places: [Missing::default(); PLACES],
            placed: 0,
            ends: Vec::new(),
        }
    }
}

impl Pending {
    /// Forgets the deferred pieces, and all ends.
    pub(crate) fn clear(&mut self) {
        (self.count, self.placed) = (0, 0);
        self.ends.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.placed == 0
    }

    /// Returns whether a piece can be deferred at all.
    pub(crate) fn takes(len: usize) -> bool {
        len <= MOST
    }

    /// Records that a text ends where the output does.
    pub(crate) fn end(&mut self, out: &[u32]) {
        self.ends.push(out.len());
    }

    /// Returns the ends of all texts; correct once nothing is pending.
    pub(crate) fn take_ends(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.ends.drain(..)
    }

    /// Defers a piece whose ids belong at `at`; returns `true` if there is no more room.
    pub(crate) fn push(&mut self, tables: &Tables, piece: &[u8], key: Key, at: usize) -> bool {
        let known = self.keys[..self.count].iter().position(|other| other.is(key));
        let word = known.unwrap_or(self.count);
        if known.is_none() {
            self.keys[word] = key;
            tables.start(piece, &mut self.symbols, &mut self.words[word]);
            self.count += 1;
        }
        self.places[self.placed] = Missing { at, word, ended: self.ends.len() };
        self.placed += 1;
        self.count == WORDS || self.placed == PLACES
    }

    /// Merges all deferred pieces, caches them, and puts their ids where they belong in `out`.
    pub(crate) fn flush(&mut self, tables: &Tables, cache: &mut Cache, out: &mut Vec<u32>) {
        let words = &mut self.words[..self.count];
        merge(&tables.pairs, words);
        let mut counts = [0; WORDS];
        let made = self.made.iter_mut().zip(&mut counts);
        for ((word, key), (made, count)) in words.iter().zip(&self.keys).zip(made) {
            *count = word.ids(&tables.ids, made);
            cache.insert(*key, &made[..*count]);
        }
        self.move_ends(&counts);
        self.splice(&counts, out);
        (self.count, self.placed) = (0, 0);
    }

    /// Moves the end of every text by the number of ids that were missing before it.
    fn move_ends(&mut self, counts: &[usize; WORDS]) {
        let mut next = self.places[0].ended;
        let mut missing = 0;
        for place in &self.places[..self.placed] {
            for end in &mut self.ends[next..place.ended] {
                *end += missing;
            }
            next = place.ended;
            missing += counts[place.word];
        }
        for end in &mut self.ends[next..] {
            *end += missing;
        }
    }

    /// Spreads out the output, starting from its end so that every id moves once, and fills in the missing ids.
    fn splice(&self, counts: &[usize; WORDS], out: &mut Vec<u32>) {
        let places = &self.places[..self.placed];
        let mut from = out.len();
        let missing: usize = places.iter().map(|place| counts[place.word]).sum();
        out.resize(from + missing, 0);
        let mut to = out.len();
        for place in places.iter().rev() {
            to -= from - place.at;
            out.copy_within(place.at..from, to);
            from = place.at;
            let count = counts[place.word];
            to -= count;
            out[to..to + count].copy_from_slice(&self.made[place.word][..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{byte_spec, encode_one, One, Random};
    use super::super::{Bpe, EncodeState};

    #[test]
    fn texts_that_share_an_output_end_where_they_would_alone() {
        let mut random = Random(5);
        let spec = byte_spec(&mut random, &["a", "b", "c"], 60, true, false);
        let bpe = Bpe::new(&spec).unwrap();
        let (mut state, mut out) = (EncodeState::new(&bpe, 64 << 10), Vec::new());
        let (mut fresh, mut alone, mut ends) = (EncodeState::small(&bpe), Vec::new(), Vec::new());
        let mut writer = bpe.writer(&mut state, &mut out);
        for text in 0..400 {
            for _ in 0..text % 5 {
                let piece = random.piece(&["a", "b", "c"], 12);
                writer.encode_pieces(One(piece.len()), &piece).unwrap();
                alone.extend(encode_one(&bpe, &mut fresh, &piece));
            }
            writer.end_text();
            ends.push(alone.len());
        }
        drop(writer);
        assert_eq!(out, alone);
        assert_eq!(state.take_ends().collect::<Vec<_>>(), ends);
    }
}
