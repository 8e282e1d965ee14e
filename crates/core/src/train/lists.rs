//! The places of every pair, in one arena that is swept instead of freed.

use std::ops::Range;

use super::pairs::{key, split, Pair, PairCounts};
use super::tokens::TokenList;
use super::words::{Words, EDGE};

/// Lists of places, each ascending; a pair holds the start and length of its own.
#[derive(Default)]
pub struct Lists {
    /// The whole arena; pages that were never written cost no memory.
    places: Vec<u32>,
    end: usize,
    /// The range of a list that is no longer needed. The lists made from it are written here: the arena
    /// grows half as fast, and these cells are still in the cache.
    hole: Range<usize>,
    /// Lists that were joined from two and must be sorted at the end of the step.
    mixed: Vec<(u32, u32)>,
}

impl Lists {
    /// Room for `len` places, and three quarters as many again before the first sweep.
    pub fn new(len: usize) -> Self {
        Self { places: crate::pages::zeros(len + len / 4 * 3 + 1024), end: len, ..Self::default() }
    }

    /// Returns whether `more` places fit before the next sweep.
    pub fn fits(&self, more: usize) -> bool {
        self.end + more <= self.places.len()
    }

    /// Frees the places of a list, which will not be needed again.
    pub fn release(&mut self, start: u32, len: u32) {
        if len as usize > self.hole.len() {
            self.hole = start as usize..start as usize + len as usize;
        }
    }

    /// Returns the places of one list.
    #[inline(always)]
    pub fn places(&self, start: u32, len: u32) -> &[u32] {
        &self.places[start as usize..start as usize + len as usize]
    }

    /// Asks the processor to fetch the first places of a list.
    #[inline(always)]
    pub fn prefetch(&self, start: u32) {
        super::prefetch(&self.places, start as usize);
    }

    /// Makes a list of `len` places, which the caller writes.
    #[inline(always)]
    pub fn reserve(&mut self, len: u32) -> u32 {
        let len = len as usize;
        if len <= self.hole.len() {
            self.hole.start += len;
            return (self.hole.start - len) as u32;
        }
        self.append(len)
    }

    fn append(&mut self, len: usize) -> u32 {
        let start = self.end;
        self.end += len;
        if self.end > self.places.len() {
            self.places.resize(self.end, 0);
        }
        start as u32
    }

    /// Moves a pair's list to the end with room for `more` places; gives its new start and where they go.
    pub fn extend(&mut self, pair: &mut Pair, more: u32) -> (u32, u32) {
        let known = if pair.count > 0 { pair.len } else { 0 };
        let first = self.append((known + more) as usize);
        let old = pair.start as usize;
        self.places.copy_within(old..old + known as usize, first as usize);
        pair.len = known + more;
        self.mixed.push((first, pair.len));
        (first, first + known)
    }

    /// Writes one place.
    #[inline(always)]
    pub fn set(&mut self, at: u32, place: u32) {
        self.places[at as usize] = place;
    }

    /// Writes several places from `start` on.
    pub fn write(&mut self, start: u32, places: &[u32]) {
        let start = start as usize;
        self.places[start..start + places.len()].copy_from_slice(places);
    }

    /// Sorts the lists that were joined in this step.
    pub fn restore_order(&mut self) {
        for (start, len) in self.mixed.drain(..) {
            self.places[start as usize..start as usize + len as usize].sort_unstable();
        }
    }

    /// Drops the lists of pairs that are gone and the places that no longer hold their pair.
    ///
    /// What is left has at most one place per adjacent pair of tokens, so a sweep always frees at
    /// least what was added since the start.
    #[cold]
    pub fn sweep(&mut self, pairs: &mut PairCounts, cells: &[u32], tokens: &TokenList) {
        let mut live: Vec<&mut Pair> = pairs.live_mut().collect();
        live.sort_unstable_by_key(|pair| pair.start);
        let mut end = 0usize;
        for pair in live {
            let (left, right) = split(pair.key);
            let step = tokens.len_of(left) as usize;
            let start = end;
            for i in pair.start as usize..pair.start as usize + pair.len as usize {
                let place = self.places[i];
                if cells[place as usize] == left && cells[place as usize + step] == right {
                    self.places[end] = place;
                    end += 1;
                }
            }
            pair.start = start as u32;
            pair.len = (end - start) as u32;
        }
        self.end = end;
        self.hole = 0..0;
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.places.len() * 4
    }
}

/// Returns all pairs of single bytes in `words`, counted, and the lists of their places.
pub fn first_pairs(words: &Words) -> (PairCounts, Lists) {
    let mut counts = vec![0u64; 1 << 16];
    let mut lens = vec![0u32; 1 << 16];
    let mut group = 0;
    for_each_pair(&words.cells, |code, place| {
        counts[code] += words.groups.count_at(place, &mut group);
        lens[code] += 1;
    });
    let mut pairs = PairCounts::new(1 << 16);
    let mut cursors = vec![0u32; 1 << 16];
    let mut total = 0u32;
    for code in 0..1usize << 16 {
        cursors[code] = total;
        if counts[code] > 0 {
            let key = key(code as u32 >> 8, code as u32 & 255);
            let (count, len) = (counts[code], lens[code]);
            pairs.insert(Pair { key, count, start: total, len });
        }
        total += lens[code];
    }
    let mut lists = Lists::new(total as usize);
    for_each_pair(&words.cells, |code, place| {
        lists.set(cursors[code], place);
        cursors[code] += 1;
    });
    (pairs, lists)
}

/// Calls `each(left id * 256 + right id, place)` for adjacent single-byte tokens, in ascending order.
#[inline(always)]
fn for_each_pair(cells: &[u32], mut each: impl FnMut(usize, u32)) {
    for (place, pair) in cells.windows(2).enumerate() {
        if pair[0] != EDGE && pair[1] != EDGE {
            each((pair[0] << 8 | pair[1]) as usize, place as u32);
        }
    }
}
