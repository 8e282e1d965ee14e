//! The cache of short pieces, where nearly all pieces of any text are found: one cache line per look.
//!
//! A line has four units of a head and a value. A piece of up to seven bytes takes one: its key and its
//! packed ids. One of up to fifteen takes two neighbours: head and tail of its key, then its ids. So four
//! short words share a line, and the words of most texts fit the second-level cache of the CPU.

use std::hint::select_unpredictable;

use super::keys::ShortKey;
use super::packed::Packed;
use crate::pages::{prefetch, Pages, Plain};

const UNITS: usize = 4;
const EMPTY: u64 = 0;
/// In the unit after a wide key, which has no head of its own. No key has this head.
const TAKEN: u64 = u64::MAX;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    heads: [u64; UNITS],
    values: [u64; UNITS],
}

// SAFETY: integers only.
unsafe impl Plain for Line {}

/// A table of fixed size; new pieces push out others of their line.
pub(crate) struct Lines {
    table: Pages<Line>,
    /// The upper bits of a hash, from here on, number the lines.
    shift: u32,
    /// Which unit goes next when a line is full.
    turn: usize,
}

impl Lines {
    /// A table of about `bytes`, at least a few lines.
    pub(crate) fn new(bytes: usize) -> Self {
        let bits = (bytes / size_of::<Line>()).clamp(16, 1 << 31).ilog2();
        Self {
            table: Pages::zeroed(1 << bits),
            shift: 64 - bits,
            turn: 0,
        }
    }

    /// How many pieces of one unit fit.
    pub(crate) fn room(&self) -> usize {
        self.table.len() * UNITS
    }

    /// The line of a key.
    #[inline(always)]
    pub(crate) fn line_of(&self, key: ShortKey) -> u32 {
        (key.hash() >> self.shift) as u32
    }

    /// Fetches a line ahead of its probe.
    #[inline(always)]
    pub(crate) fn prefetch(&self, line: u32) {
        prefetch(self.table.as_ptr().wrapping_add(line as usize));
    }

    /// What is known of a key that belongs to `line`: [`Packed::UNKNOWN`] if nothing.
    #[inline(always)]
    pub(crate) fn probe(&self, line: u32, key: ShortKey) -> Packed {
        // The mask changes nothing; it tells the compiler that the line exists.
        let line = &self.table[line as usize & (self.table.len() - 1)];
        let same = same_heads(&line.heads, key.head);
        if same == 0 {
            return Packed::UNKNOWN;
        }
        let unit = same.trailing_zeros() as usize;
        let wide = key.is_wide();
        // Whether a piece is wide is anybody's guess, so it must not become a branch. The tail of one that
        // is not is zero.
        let tail = select_unpredictable(wide == 1, line.values[unit % UNITS], 0);
        if tail != key.tail {
            return Packed::UNKNOWN;
        }
        Packed(line.values[(unit + wide) % UNITS])
    }

    /// Remembers what a key became.
    pub(crate) fn insert(&mut self, key: ShortKey, ids: Packed) {
        let at = self.line_of(key) as usize;
        self.turn = self.turn.wrapping_add(1);
        let line = &mut self.table[at];
        let wide = key.is_wide();
        let unit = line.unit_for(key, self.turn);
        line.clear(unit);
        line.clear(unit + wide);
        if wide == 1 {
            line.heads[unit + 1] = TAKEN;
            line.values[unit] = key.tail;
        }
        line.heads[unit] = key.head;
        line.values[unit + wide] = ids.0;
    }
}

impl Line {
    /// Where a key goes: its own place, else a free one, else that of whoever's turn it is.
    fn unit_for(&self, key: ShortKey, turn: usize) -> usize {
        let step = 1 + key.is_wide();
        let mut units = (0..UNITS).step_by(step);
        let is_free = |unit: &usize| {
            self.heads[*unit..*unit + step]
                .iter()
                .all(|head| *head == EMPTY)
        };
        units
            .clone()
            .find(|unit| self.heads[*unit] == key.head)
            .or_else(|| units.find(is_free))
            .unwrap_or(turn * step % UNITS)
    }

    /// Frees a unit, and its neighbour if a wide key has both.
    fn clear(&mut self, unit: usize) {
        let pair = unit & !1;
        if self.heads[pair + 1] == TAKEN {
            self.heads[pair] = EMPTY;
            self.heads[pair + 1] = EMPTY;
        }
        self.heads[unit] = EMPTY;
    }
}

/// Which heads equal `head`, as bits.
#[inline(always)]
fn same_heads(heads: &[u64; UNITS], head: u64) -> u32 {
    let mut same = 0;
    for (unit, other) in heads.iter().enumerate() {
        same |= u32::from(*other == head) << unit;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::super::keys::ShortKey;
    use super::super::packed::Packed;
    use super::Lines;

    #[test]
    fn what_is_found_is_what_was_put_last() {
        let mut lines = Lines::new(1 << 10);
        let mut last = std::collections::HashMap::new();
        let (mut state, mut found) = (1u64, 0);
        for turn in 0..20_000u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let len = 1 + (state >> 40) as usize % 15;
            let text = [b'a' + (state >> 60) as u8; 16];
            let key = ShortKey::new(&text, 0, len, 0);
            let known = lines.probe(lines.line_of(key), key);
            if known != Packed::UNKNOWN {
                assert_eq!(Some(&known), last.get(&(text[0], len)));
                found += 1;
            }
            if let Some(ids) = Packed::new(&[turn]) {
                lines.insert(key, ids);
                last.insert((text[0], len), ids);
                assert_eq!(lines.probe(lines.line_of(key), key), ids);
            }
        }
        assert!(found > 2_000);
    }
}
