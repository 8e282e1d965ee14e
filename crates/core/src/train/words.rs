//! Every distinct piece once, as cells of one flat array: what merging works on.
//!
//! A cell holds the id of the token that starts or ends there, so both neighbours of a token are one
//! step away without links. Words are grouped by count: the count of a place is that of its group,
//! which saves four bytes per cell, and lists of places ascend, so the group is found by walking.

use std::collections::HashMap;

use super::heap::TieBreak;
use super::table::CountedPiece;
use super::tokens::{byte_order, TokenList};
use crate::{Error, Result};

/// Stands between two words.
pub const EDGE: u32 = u32::MAX;
/// Stands inside a token, between its first and its last cell.
pub const INSIDE: u32 = u32::MAX - 1;
/// Places are 32-bit and the list arena may hold one and three quarters as many as there are cells.
const MOST_CELLS: u64 = 1 << 31;

/// Asks for what a step touches at a place: `len` cells, the one before and the one after. They are on two lines of
/// the cache as often as on one.
#[inline(always)]
pub fn prefetch_around(cells: &[u32], place: u32, len: usize) {
    super::prefetch(cells, (place as usize).wrapping_sub(1));
    super::prefetch(cells, place as usize + len);
}

/// Something that can list all pieces with their counts, more than once and in any order.
pub trait CountSource {
    /// Calls `each` once with every distinct piece.
    fn for_each(&mut self, each: &mut dyn FnMut(CountedPiece<'_>)) -> Result<()>;

    /// Returns whether it knows where each piece first occurs.
    fn in_order(&self) -> bool;
}

impl CountSource for super::table::PieceTable {
    fn for_each(&mut self, each: &mut dyn FnMut(CountedPiece<'_>)) -> Result<()> {
        self.for_each_entry(each);
        Ok(())
    }

    fn in_order(&self) -> bool {
        Self::in_order(self)
    }
}

/// The cells and the count of each range of them.
pub struct Words {
    /// One cell per byte, with [`EDGE`] before, between and after the words.
    pub cells: Vec<u32>,
    /// The count of every word, by place.
    pub groups: Groups,
    /// How many pieces were kept.
    pub pieces: u64,
    /// Whether they are in the order of the texts, and not by count.
    pub in_order: bool,
}

impl Words {
    /// As [`Words::build`], in the order that a tie rule asks for.
    pub fn build_for(tie: TieBreak, source: &mut dyn CountSource, least: u64) -> Result<Self> {
        if tie.needs_places() {
            Self::build_in_order(source, least)
        } else {
            Self::build(source, least)
        }
    }

    /// Lays out the pieces in the order in which they first occur. Until a piece has its place it takes 16 bytes;
    /// its cells take about twice as many.
    fn build_in_order(source: &mut dyn CountSource, least: u64) -> Result<Self> {
        if !source.in_order() {
            return Err(Error::Input(
                "the tie rule first-seen needs counts that record which piece came first; these do not"
                    .into(),
            ));
        }
        let keep = |entry: &CountedPiece<'_>| entry.piece.len() > 1 && entry.count >= least;
        let (mut met, mut cells, mut total) = (Vec::new(), 2u64, 0u128);
        source.for_each(&mut |entry| {
            if keep(&entry) {
                met.push((entry.first, entry.piece.len() as u64));
                cells += entry.piece.len() as u64 + 1;
                total += u128::from(entry.count) * entry.piece.len() as u128;
            }
        })?;
        check_size(cells, total)?;
        met.sort_unstable();
        let mut at = 1u64;
        for (_, place) in &mut met {
            // The place replaces the length.
            at += std::mem::replace(place, at) + 1;
        }
        let mut words = Self {
            cells: crate::pages::filled(EDGE, cells as usize),
            groups: Groups::default(),
            pieces: met.len() as u64,
            in_order: true,
        };
        let mut counts = vec![0u64; met.len()];
        let (ids, mut strayed) = (byte_ids(), false);
        source.for_each(&mut |entry| {
            if !keep(&entry) {
                return;
            }
            let Ok(rank) = met.binary_search_by_key(&entry.first, |&(first, _)| first) else {
                strayed = true;
                return;
            };
            counts[rank] = entry.count;
            let place = met[rank].1 as usize;
            let cells = words.cells.get_mut(place..place + entry.piece.len());
            for (cell, &byte) in cells.into_iter().flatten().zip(entry.piece) {
                *cell = ids[byte as usize];
            }
        })?;
        if strayed {
            return Err(counts_changed());
        }
        let ends = met.iter().skip(1).map(|&(_, place)| place as u32);
        for (&count, end) in counts.iter().zip(ends.chain([at as u32])) {
            words.groups.push(count, end);
        }
        Ok(words)
    }

    /// Lays out all pieces of at least two bytes that occur at least `least` times.
    pub fn build(source: &mut dyn CountSource, least: u64) -> Result<Self> {
        let keep = |piece: &[u8], count: u64| piece.len() > 1 && count >= least;
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        let (mut total, mut pieces) = (0u128, 0u64);
        source.for_each(&mut |CountedPiece { piece, count, .. }| {
            if keep(piece, count) {
                *sizes.entry(count).or_default() += piece.len() as u64 + 1;
                total += u128::from(count) * piece.len() as u128;
                pieces += 1;
            }
        })?;
        let cells = 2 + sizes.values().sum::<u64>();
        check_size(cells, total)?;

        let mut groups: Vec<(u64, u64)> = sizes.into_iter().collect();
        groups.sort_unstable_by(|a, b| b.cmp(a));
        let mut words = Self {
            cells: crate::pages::filled(EDGE, cells as usize),
            groups: Groups::default(),
            pieces,
            in_order: false,
        };
        let mut cursors = HashMap::with_capacity(groups.len());
        let mut at = 1usize;
        for (count, size) in groups {
            cursors.insert(count, at);
            at += size as usize;
            words.groups.push(count, at as u32);
        }
        words.fill(source, &mut cursors, keep)?;
        Ok(words)
    }

    /// Lays out words of existing tokens, `ids[offsets[i]..offsets[i + 1]]` with `counts[i]` each. A
    /// token has as many cells as bytes, like one that merging made.
    pub fn of_tokens(
        ids: &[u32],
        offsets: &[i64],
        counts: &[u64],
        tokens: &TokenList,
    ) -> Result<Self> {
        let mut words = Vec::with_capacity(counts.len());
        let (mut cells, mut total) = (2u64, 0u128);
        for (range, &count) in offsets.windows(2).zip(counts) {
            let known = usize::try_from(range[0]).ok().zip(usize::try_from(range[1]).ok());
            let word = known.and_then(|(start, end)| ids.get(start..end)).ok_or_else(bad_word)?;
            if word.iter().any(|&id| id as usize >= tokens.len() || tokens.len_of(id) == 0) {
                return Err(bad_word());
            }
            if word.len() > 1 && count > 0 {
                let size: u64 = word.iter().map(|&id| u64::from(tokens.len_of(id))).sum();
                cells += size + 1;
                total += u128::from(count) * u128::from(size);
                words.push((count, word));
            }
        }
        check_size(cells, total)?;
        words.sort_by_key(|word| std::cmp::Reverse(word.0));
        let mut laid = Self {
            cells: crate::pages::filled(EDGE, cells as usize),
            groups: Groups::default(),
            pieces: words.len() as u64,
            in_order: false,
        };
        let mut at = 1usize;
        for (count, word) in words {
            for &id in word {
                let len = tokens.len_of(id) as usize;
                laid.cells[at..at + len].fill(INSIDE);
                laid.cells[at] = id;
                laid.cells[at + len - 1] = id;
                at += len;
            }
            at += 1;
            laid.groups.push(count, at as u32);
        }
        Ok(laid)
    }

    fn fill(
        &mut self,
        source: &mut dyn CountSource,
        cursors: &mut HashMap<u64, usize>,
        keep: impl Fn(&[u8], u64) -> bool,
    ) -> Result<()> {
        let (id_of, mut strayed) = (byte_ids(), false);
        source.for_each(&mut |CountedPiece { piece, count, .. }| {
            if !keep(piece, count) {
                return;
            }
            let Some(cursor) = cursors.get_mut(&count) else {
                strayed = true;
                return;
            };
            let Some(cells) = self.cells.get_mut(*cursor..*cursor + piece.len()) else {
                strayed = true;
                return;
            };
            for (cell, &byte) in cells.iter_mut().zip(piece) {
                *cell = id_of[byte as usize];
            }
            *cursor += piece.len() + 1;
        })?;
        if strayed {
            return Err(counts_changed());
        }
        Ok(())
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.cells.len() * 4 + self.groups.ends.len() * 12
    }
}

/// Ranges of cells whose words have the same count.
#[derive(Default)]
pub struct Groups {
    ends: Vec<u32>,
    counts: Vec<u64>,
}

impl Groups {
    /// Adds the next range of cells, up to `end`.
    fn push(&mut self, count: u64, end: u32) {
        if self.counts.last() == Some(&count) {
            self.ends.pop();
        } else {
            self.counts.push(count);
        }
        self.ends.push(end);
    }

    /// Returns the count of the word at `place`. `group` is a cursor: start at 0 and ask in ascending order.
    #[inline(always)]
    pub fn count_at(&self, place: u32, group: &mut usize) -> u64 {
        if place >= self.ends[*group] {
            *group += 1;
            if place >= self.ends[*group] {
                *group += self.ends[*group..].partition_point(|&end| end <= place);
            }
        }
        self.counts[*group]
    }
}

/// Returns the id of each byte.
fn byte_ids() -> [u32; 256] {
    let mut ids = [0u32; 256];
    for (id, byte) in byte_order().into_iter().enumerate() {
        ids[byte as usize] = id as u32;
    }
    ids
}

fn counts_changed() -> Error {
    Error::Internal("the piece counts changed between two passes".into())
}

fn bad_word() -> Error {
    Error::Input(
        "a word has an id that is not in the vocabulary, or its offsets point outside the ids"
            .into(),
    )
}

fn check_size(cells: u64, total: u128) -> Result<()> {
    if cells > MOST_CELLS {
        return Err(Error::Input(format!(
            "the distinct pieces have {cells} bytes, more than the {MOST_CELLS} that merging can hold; \
             leave out rare pieces with min_piece_frequency"
        )));
    }
    if total > u128::from(u64::MAX / 2) {
        return Err(Error::Input("the weighted counts exceed 2^63; use smaller weights".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::PieceTable;
    use super::*;

    #[test]
    fn each_place_knows_its_count() {
        let mut table = PieceTable::default();
        for (piece, count) in [("ab", 3), ("cde", 9), ("x", 100), ("fg", 3), ("rare", 1)] {
            table.add(piece.as_bytes(), count);
        }
        let words = Words::build(&mut table, 2).expect("small");
        assert_eq!(words.cells.len(), 2 + 4 + 3 + 3);
        assert_eq!(words.pieces, 3);
        let mut group = 0;
        assert_eq!(words.groups.count_at(1, &mut group), 9);
        assert_eq!(words.groups.count_at(5, &mut group), 3);
        assert_eq!(words.groups.count_at(8, &mut group), 3);
    }

    #[test]
    fn weights_that_overflow_are_refused() {
        let mut table = PieceTable::default();
        table.add(&[b'a'; 200], u64::MAX / 2);
        assert!(Words::build(&mut table, 1).is_err());
    }
}
