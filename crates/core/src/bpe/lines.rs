//! The cache of short pieces, where nearly all pieces of any text are found: one cache line per lookup.
//!
//! A line holds two keys and their ids. A piece that finds both slots of its home line taken may go to the
//! neighbouring line, which is searched only if the piece is not in its home line.

use super::keys::ShortKey;
use super::packed::Packed;
use crate::pages::{prefetch, Pages, Plain};

const SLOTS: usize = 2;
/// No table starts with fewer lines, if it may have this many.
const LEAST_LINES: usize = 1 << 14;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    keys: [ShortKey; SLOTS],
    ids: [Packed; SLOTS],
}

// SAFETY: integers only.
unsafe impl Plain for Line {}

/// A table in which new pieces evict others from their line. It may start small, for a text too short to fill it:
/// once the evictions exceed a sixteenth of its lines, it grows once, to its full size. Growing takes some 4 ms, and
/// a new table of full size takes 1 ms more than a small one (5 ms on another machine); growing only after as many
/// evictions as there are lines cost GPT-2 a fifth of its speed.
pub(crate) struct Lines {
    table: Pages<Line>,
    /// The upper bits of a hash, from this one up, are the index of a line.
    shift: u32,
    /// The same once the table has grown.
    full_shift: u32,
    /// Number of evictions; decides which slot is evicted next.
    turn: usize,
    /// Number of entries that were moved home in exchange for one that belonged there; decides which slot is
    /// exchanged.
    moved: usize,
}

impl Lines {
    /// Creates a table that grows to about `bytes`, but at least a few lines; until then, it has room for twice `first`
    /// pieces.
    pub(crate) fn new(bytes: usize, first: usize) -> Self {
        let full = (bytes / size_of::<Line>()).clamp(16, 1 << 31).ilog2();
        let wanted = first.saturating_mul(2).div_ceil(SLOTS).max(LEAST_LINES);
        let bits = wanted.min(1 << full).next_power_of_two().ilog2();
        Self {
            table: Pages::zeroed(1 << bits),
            shift: 64 - bits,
            full_shift: 64 - full,
            turn: 0,
            moved: 0,
        }
    }

    /// Moves to a table of full size.
    #[cold]
    fn grow(&mut self) {
        let full = Pages::zeroed(1 << (64 - self.full_shift));
        self.shift = self.full_shift;
        let old = std::mem::replace(&mut self.table, full);
        for line in old.iter() {
            for (key, ids) in line.keys.iter().zip(&line.ids) {
                if !key.is(ShortKey::EMPTY) {
                    self.offer(*key, *ids);
                }
            }
        }
    }

    /// Returns how many pieces fit.
    pub(crate) fn room(&self) -> usize {
        self.table.len() * SLOTS
    }

    /// Returns the table as it is now, for a loop.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        View { lines: &self.table, shift: self.shift }
    }

    fn line_of(&self, key: ShortKey) -> u32 {
        self.view().line_of(key)
    }

    /// Returns the ids of a key, from its home line or the neighbouring one; an entry found there is moved home, as the next
    /// lookup may come soon.
    pub(crate) fn find(&mut self, key: ShortKey) -> Option<Packed> {
        let home = self.line_of(key) as usize;
        let slot = |line: &Line| line.keys.iter().position(|held| held.is(key));
        let line = &self.table[home];
        if let Some(slot) = slot(line) {
            return Some(line.ids[slot]);
        }
        // No entry goes to the neighbouring line while its home line has room.
        if line.keys[SLOTS - 1].is(ShortKey::EMPTY) {
            return None;
        }
        let from = slot(&self.table[home ^ 1])?;
        Some(self.come_home(home, from))
    }

    /// Swaps an entry in the line next to `home` with one in `home`: if possible with one that belongs in that line,
    /// so that both are then home. With the vocabulary of o200k, a fortieth of all lookups ended in the neighbouring
    /// line before.
    fn come_home(&mut self, home: usize, from: usize) -> Packed {
        let is_guest = |key: &ShortKey| self.line_of(*key) as usize != home;
        let guest = self.table[home].keys.iter().position(is_guest);
        let to = guest.unwrap_or_else(|| {
            self.moved = self.moved.wrapping_add(1);
            self.moved % SLOTS
        });
        let (mut here, mut there) = (self.table[home], self.table[home ^ 1]);
        std::mem::swap(&mut here.keys[to], &mut there.keys[from]);
        std::mem::swap(&mut here.ids[to], &mut there.ids[from]);
        (self.table[home], self.table[home ^ 1]) = (here, there);
        here.ids[to]
    }

    /// Remembers the ids of a key: in the slot that holds it or an empty one, home line first, or else in place of
    /// another entry.
    pub(crate) fn insert(&mut self, key: ShortKey, ids: Packed) {
        if !self.offer(key, ids) {
            self.turn = self.turn.wrapping_add(1);
            if self.turn > self.table.len() / 16 && self.shift > self.full_shift {
                self.grow();
            }
            let home = self.line_of(key) as usize;
            self.table[home].keys[self.turn % SLOTS] = key;
            self.table[home].ids[self.turn % SLOTS] = ids;
        }
    }

    /// Remembers the ids of a key unless another entry would have to be evicted; returns whether it did.
    pub(crate) fn offer(&mut self, key: ShortKey, ids: Packed) -> bool {
        let home = self.line_of(key) as usize;
        for (line, slot) in [(home, 0), (home, 1), (home ^ 1, 0), (home ^ 1, 1)] {
            let held = &self.table[line].keys[slot];
            if held.is(ShortKey::EMPTY) || held.is(key) {
                self.table[line].keys[slot] = key;
                self.table[line].ids[slot] = ids;
                return true;
            }
        }
        false
    }
}

/// The lines and the shift that indexes them, kept in registers.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    lines: &'a [Line],
    shift: u32,
}

impl<'a> View<'a> {
    /// Returns the line of a key.
    #[inline(always)]
    pub(crate) fn line_of(self, key: ShortKey) -> u32 {
        (key.hash() >> self.shift) as u32
    }

    /// Prefetches a line ahead of its probe.
    #[inline(always)]
    pub(crate) fn prefetch(self, line: u32) {
        prefetch(self.lines.as_ptr().wrapping_add(line as usize));
    }

    /// Returns the ids of a key, if it is in `line`.
    ///
    /// # Safety
    /// `line` must come from [`Self::line_of`], now or before the table grew, or be 0.
    #[inline(always)]
    pub(crate) unsafe fn probe(self, line: u32, key: ShortKey) -> Option<&'a Packed> {
        debug_assert!((line as usize) < self.lines.len());
        // SAFETY: a hash shifted by `shift` is less than the length, which is a power of two, is never 0 and never
        // shrinks.
        let line = unsafe { self.lines.get_unchecked(line as usize) };
        let slot = usize::from(line.keys[1].is(key));
        line.keys[slot].is(key).then(|| &line.ids[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::ShortKey;
    use super::super::packed::Packed;
    use super::Lines;

    #[test]
    fn what_is_found_is_what_was_put_last() {
        let mut lines = Lines::new(1 << 10, 0);
        let mut last = std::collections::HashMap::new();
        let (mut state, mut found) = (1u64, 0);
        for turn in 0..20_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = 1 + (state >> 40) as usize % 15;
            let text = [b'a' + (state >> 60) as u8; 16];
            let key = ShortKey::new(&text, 0, len, 0);
            if let Some(known) = lines.find(key) {
                assert_eq!(Some(&known), last.get(&(text[0], len)));
                found += 1;
            }
            if let Some(ids) = Packed::new(&[turn]) {
                lines.insert(key, ids);
                last.insert((text[0], len), ids);
                assert_eq!(lines.find(key), Some(ids));
                // SAFETY: the line comes from the key.
                let probed = unsafe { lines.view().probe(lines.line_of(key), key) };
                assert!(probed.is_none_or(|probed| *probed == ids));
            }
        }
        assert!(found > 2_000);
    }

    #[test]
    fn it_grows_once_and_keeps_what_it_has() {
        let mut lines = Lines::new(4 << 20, 0);
        let small = lines.room();
        let key_of = |number: u64| ShortKey::new(&number.to_be_bytes().repeat(2), 0, 8, 0);
        for number in 1..100_000 {
            if let Some(ids) = Packed::new(&[number as u32]) {
                let before = lines.room();
                lines.insert(key_of(number), ids);
                assert_eq!(lines.find(key_of(number)), Some(ids));
                if lines.room() > before {
                    let kept = (1..number).filter(|old| lines.find(key_of(*old)).is_some());
                    assert!(kept.count() > small / 2);
                }
            }
        }
        assert_eq!(lines.room(), 4 * small);
    }
}
