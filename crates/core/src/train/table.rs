//! piece -> u64 count, without an allocation per piece.
//!
//! A slot is 32 bytes. Pieces of up to eight bytes live in their slot; longer ones in one arena.

use super::hash;
use super::spill::partition_of;

const SMALLEST: usize = 1 << 12;
/// Arena offsets are counted in these units, so that 32 bits reach 32 GiB.
const UNIT: usize = 8;

/// Aligned, so that a lookup touches one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Slot {
    hash: u64,
    head: u64,
    /// Zero marks a free slot: no piece is stored without a count.
    count: u64,
    start: u32,
    len: u32,
}

/// What finds a piece in a table.
#[derive(Clone, Copy, Default)]
pub struct PieceKey {
    head: u64,
    hash: u64,
}

impl PieceKey {
    /// Returns the key of `text[start..end]`.
    #[inline(always)]
    pub fn of(text: &[u8], start: usize, end: usize) -> Self {
        let head = hash::head_in(text, start, end);
        let hash = hash::of_piece(&text[start..end], head);
        Self { head, hash }
    }
}

/// A piece of a table, with its count.
#[derive(Clone, Copy)]
pub struct CountedPiece<'a> {
    pub piece: &'a [u8],
    pub hash: u64,
    pub count: u64,
    /// Where it first occurs; 0 in a table that does not keep it.
    pub first: u64,
}

/// Counts of distinct pieces.
pub struct PieceTable {
    slots: Vec<Slot>,
    filled: usize,
    arena: Vec<u8>,
    /// Where the piece of each slot first occurs; empty unless asked for.
    firsts: Vec<u64>,
}

impl Default for PieceTable {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SMALLEST],
            filled: 0,
            arena: Vec::new(),
            firsts: Vec::new(),
        }
    }
}

impl PieceTable {
    /// Creates an empty table; with `in_order` it keeps where each piece first occurs.
    pub fn new(in_order: bool) -> Self {
        let mut table = Self::default();
        if in_order {
            table.firsts = vec![u64::MAX; SMALLEST];
        }
        table
    }

    /// Adds `count` occurrences of `piece`; counts stop at `u64::MAX` and never wrap.
    #[inline]
    pub fn add(&mut self, piece: &[u8], count: u64) {
        self.add_known(piece, PieceKey::of(piece, 0, piece.len()), count);
    }

    /// Asks the processor to fetch a piece's slot ahead of [`PieceTable::add_known`].
    #[inline(always)]
    pub fn prefetch(&self, key: PieceKey) {
        super::prefetch(
            &self.slots,
            (key.hash >> 20) as usize & (self.slots.len() - 1),
        );
    }

    /// As [`PieceTable::add_known`], for a piece that occurs at `place`.
    #[inline(always)]
    pub fn add_seen(&mut self, piece: &[u8], key: PieceKey, count: u64, place: u64) {
        let at = self.add_known(piece, key, count);
        if let Some(first) = self.firsts.get_mut(at) {
            *first = place.min(*first);
        }
    }

    /// Adds `count` occurrences of a piece whose key is known; gives its slot, `usize::MAX` if it has none.
    #[inline(always)]
    pub fn add_known(&mut self, piece: &[u8], key: PieceKey, count: u64) -> usize {
        let PieceKey { head, hash } = key;
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.count == 0 {
                break;
            }
            if slot.hash == hash
                && slot.head == head
                && slot.len as usize == piece.len()
                && (piece.len() <= 8 || stored(&self.arena, slot) == piece)
            {
                slot.count = slot.count.saturating_add(count);
                return at;
            }
            at = (at + 1) & mask;
        }
        if count == 0 {
            return usize::MAX;
        }
        self.insert(at, piece, key, count)
    }

    #[cold]
    fn insert(&mut self, mut at: usize, piece: &[u8], key: PieceKey, count: u64) -> usize {
        if (self.filled + 1) * 4 > self.slots.len() * 3 {
            self.grow();
            at = self.free_slot(key.hash);
        }
        let start = (self.arena.len() / UNIT) as u32;
        if piece.len() > 8 {
            self.arena.extend_from_slice(piece);
            self.arena
                .resize(self.arena.len().next_multiple_of(UNIT), 0);
        }
        self.slots[at] = Slot {
            hash: key.hash,
            head: key.head,
            count,
            start,
            len: piece.len() as u32,
        };
        self.filled += 1;
        at
    }

    /// Returns the first free slot for a piece that is not in the table.
    fn free_slot(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        while self.slots[at].count > 0 {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let wider = crate::pages::filled(Slot::default(), self.slots.len() * 2);
        let firsts = vec![u64::MAX; self.firsts.len() * 2];
        let old = std::mem::replace(&mut self.slots, wider);
        let firsts = std::mem::replace(&mut self.firsts, firsts);
        for (from, slot) in old.into_iter().enumerate() {
            if slot.count > 0 {
                let at = self.free_slot(slot.hash);
                self.slots[at] = slot;
                if let Some(&first) = firsts.get(from) {
                    self.firsts[at] = first;
                }
            }
        }
    }

    /// Adds every count of `other`.
    pub fn absorb(&mut self, other: &Self) {
        other.for_each_entry(|entry| {
            let head = hash::head(entry.piece);
            let key = PieceKey {
                head,
                hash: entry.hash,
            };
            self.add_seen(entry.piece, key, entry.count, entry.first);
        });
    }

    /// Calls `each` with every piece, in no particular order.
    pub fn for_each_entry(&self, mut each: impl FnMut(CountedPiece<'_>)) {
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.count > 0 {
                self.visit(at, &mut each);
            }
        }
    }

    /// Returns whether it keeps where each piece first occurs.
    pub fn in_order(&self) -> bool {
        !self.firsts.is_empty()
    }

    /// Slots in the order of their pieces: by partition of the hash, then by the bytes.
    pub fn order(&self) -> Vec<u32> {
        let filled = (0..self.slots.len() as u32).filter(|&at| self.slots[at as usize].count > 0);
        let mut order: Vec<u32> = filled.collect();
        order.sort_unstable_by(|&a, &b| {
            let (a, b) = (&self.slots[a as usize], &self.slots[b as usize]);
            let parts = partition_of(a.hash).cmp(&partition_of(b.hash));
            // Big-endian heads compare as their bytes do, up to a tie that the rest decides.
            let heads = || a.head.swap_bytes().cmp(&b.head.swap_bytes());
            parts
                .then_with(heads)
                .then_with(|| self.tail(a).cmp(&self.tail(b)))
        });
        order
    }

    /// Returns which range of [`PieceTable::order`] belongs to one partition.
    pub fn part_of(&self, order: &[u32], part: usize) -> std::ops::Range<usize> {
        let below =
            |limit| order.partition_point(|&at| partition_of(self.slots[at as usize].hash) < limit);
        below(part)..below(part + 1)
    }

    /// Calls `each` with the pieces of the given slots.
    pub fn for_each_of(&self, slots: &[u32], mut each: impl FnMut(CountedPiece<'_>)) {
        for &at in slots {
            self.visit(at as usize, &mut each);
        }
    }

    fn tail<'a>(&'a self, slot: &'a Slot) -> (&'a [u8], u32) {
        let rest = if slot.len > 8 {
            stored(&self.arena, slot)
        } else {
            &[]
        };
        (rest, slot.len)
    }

    #[inline(always)]
    fn visit(&self, at: usize, each: &mut impl FnMut(CountedPiece<'_>)) {
        let slot = &self.slots[at];
        let raw = slot.head.to_le_bytes();
        let piece = if slot.len <= 8 {
            &raw[..slot.len as usize]
        } else {
            stored(&self.arena, slot)
        };
        each(CountedPiece {
            piece,
            hash: slot.hash,
            count: slot.count,
            first: self.firsts.get(at).copied().unwrap_or(0),
        });
    }

    /// Returns how many distinct pieces there are.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True before the first piece.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Bytes held, with what the next growth will take on top while it copies.
    pub fn memory(&self) -> usize {
        self.slots.len() * std::mem::size_of::<Slot>()
            + self.arena.capacity()
            + self.firsts.len() * 8
    }
}

#[inline(always)]
fn stored<'a>(arena: &'a [u8], slot: &Slot) -> &'a [u8] {
    let start = slot.start as usize * UNIT;
    &arena[start..start + slot.len as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn counts_equal_a_hash_map() {
        let mut table = PieceTable::default();
        let mut expected: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut state = 7u64;
        for _ in 0..60_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let len = (state >> 60) as usize * 2;
            let piece: Vec<u8> = (0..len)
                .map(|i| (state >> (20 + i % 9)) as u8 & 7)
                .collect();
            table.add(&piece, state >> 50);
            if state >> 50 > 0 {
                *expected.entry(piece).or_default() += state >> 50;
            }
        }
        let mut found = HashMap::new();
        table.for_each_entry(|entry| {
            assert!(found.insert(entry.piece.to_vec(), entry.count).is_none());
        });
        assert_eq!(found, expected);
        assert_eq!(table.len(), expected.len());
    }

    #[test]
    fn a_count_never_wraps() {
        let mut table = PieceTable::default();
        table.add(b"a", u64::MAX - 1);
        table.add(b"a", 5);
        table.for_each_entry(|entry| assert_eq!(entry.count, u64::MAX));
    }
}
