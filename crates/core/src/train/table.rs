//! piece -> u64 count, without an allocation per piece.
//!
//! A slot is 24 bytes. Pieces of up to eight bytes live in their slot; longer ones in one arena.

use super::hash;
use super::spill::partition_of;

const SMALLEST: usize = 1 << 12;
/// Arena offsets are counted in these units, so that 32 bits reach 32 GiB.
const UNIT: usize = 8;
/// The bits of a hash that are the index of a slot, from this one up.
const INDEX_SHIFT: u32 = 20;
/// How many of these bits a slot stores, so that tables of up to this size grow without hashing again.
const STORED_BITS: u32 = 24;
/// In place of the length of a piece that is at least this long: the arena holds the length before the bytes.
const LONG: usize = 255;

#[derive(Clone, Copy, Default)]
struct Slot {
    head: u64,
    /// Zero marks a free slot: no piece is stored without a count.
    count: u64,
    start: u32,
    /// Bits of the hash above the length, as [`PieceKey::tag`] gives them.
    tag: u32,
}

impl Slot {
    fn len(&self) -> usize {
        (self.tag & 0xFF) as usize
    }
}

/// What finds a piece in a table.
#[derive(Clone, Copy, Default)]
pub struct PieceKey {
    head: u64,
    pub(super) hash: u64,
}

impl PieceKey {
    /// Returns the key of `text[start..end]`.
    #[inline(always)]
    pub fn of(text: &[u8], start: usize, end: usize) -> Self {
        let head = hash::head_in(text, start, end);
        let hash = hash::of_piece(&text[start..end], head);
        Self { head, hash }
    }

    #[inline(always)]
    fn tag(self, len: usize) -> u32 {
        ((self.hash >> INDEX_SHIFT) as u32) << (32 - STORED_BITS) | len.min(LONG) as u32
    }
}

/// A piece of a table, with its count.
#[derive(Clone, Copy)]
pub struct CountedPiece<'a> {
    pub piece: &'a [u8],
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
        Self::new(false)
    }
}

impl PieceTable {
    /// Creates an empty table; with `in_order` it keeps where each piece first occurs.
    pub fn new(in_order: bool) -> Self {
        Self {
            slots: vec![Slot::default(); SMALLEST],
            filled: 0,
            arena: Vec::new(),
            firsts: vec![u64::MAX; if in_order { SMALLEST } else { 0 }],
        }
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
            (key.hash >> INDEX_SHIFT) as usize & (self.slots.len() - 1),
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
        let (tag, mask) = (key.tag(piece.len()), self.slots.len() - 1);
        let mut at = (key.hash >> INDEX_SHIFT) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.count == 0 {
                break;
            }
            if slot.head == key.head
                && slot.tag == tag
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
            at = self.free_slot(key.hash >> INDEX_SHIFT);
        }
        let start = (self.arena.len() / UNIT) as u32;
        if piece.len() >= LONG {
            self.arena
                .extend_from_slice(&(piece.len() as u64).to_le_bytes());
        }
        if piece.len() > 8 {
            self.arena.extend_from_slice(piece);
            self.arena
                .resize(self.arena.len().next_multiple_of(UNIT), 0);
        }
        self.slots[at] = Slot {
            head: key.head,
            count,
            start,
            tag: key.tag(piece.len()),
        };
        self.filled += 1;
        at
    }

    /// Returns the first free slot for a piece that is not in the table.
    fn free_slot(&self, index: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = index as usize & mask;
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
                let at = self.free_slot(self.index_of(&slot));
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
            let key = PieceKey::of(entry.piece, 0, entry.piece.len());
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
        let mut order: Vec<(u32, u32)> = filled
            .map(|at| (self.partition(&self.slots[at as usize]) as u32, at))
            .collect();
        order.sort_unstable_by(|&(part, a), &(other, b)| {
            let (a, b) = (&self.slots[a as usize], &self.slots[b as usize]);
            let (mut first, mut second) = ([0; 8], [0; 8]);
            let pieces = || self.piece(a, &mut first).cmp(self.piece(b, &mut second));
            part.cmp(&other).then_with(pieces)
        });
        order.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns which range of [`PieceTable::order`] belongs to one partition.
    pub fn part_of(&self, order: &[u32], part: usize) -> std::ops::Range<usize> {
        let part_at = |at: u32| self.partition(&self.slots[at as usize]);
        let below = |limit| order.partition_point(|&at| part_at(at) < limit);
        below(part)..below(part + 1)
    }

    /// Calls `each` with the pieces of the given slots.
    pub fn for_each_of(&self, slots: &[u32], mut each: impl FnMut(CountedPiece<'_>)) {
        for &at in slots {
            self.visit(at as usize, &mut each);
        }
    }

    /// Returns a piece; `raw` holds its bytes if the arena does not.
    #[inline(always)]
    fn piece<'a>(&'a self, slot: &Slot, raw: &'a mut [u8; 8]) -> &'a [u8] {
        *raw = slot.head.to_le_bytes();
        raw.get(..slot.len())
            .unwrap_or_else(|| stored(&self.arena, slot))
    }

    fn hash_of(&self, slot: &Slot) -> u64 {
        hash::of_piece(self.piece(slot, &mut [0; 8]), slot.head)
    }

    fn index_of(&self, slot: &Slot) -> u64 {
        if self.slots.len() <= 1 << STORED_BITS {
            return u64::from(slot.tag >> (32 - STORED_BITS));
        }
        self.hash_of(slot) >> INDEX_SHIFT
    }

    fn partition(&self, slot: &Slot) -> usize {
        partition_of(self.hash_of(slot))
    }

    #[inline(always)]
    fn visit(&self, at: usize, each: &mut impl FnMut(CountedPiece<'_>)) {
        let slot = &self.slots[at];
        each(CountedPiece {
            piece: self.piece(slot, &mut [0; 8]),
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
    let (start, len) = (slot.start as usize * UNIT, slot.len());
    if len < LONG {
        return &arena[start..start + len];
    }
    let mut header = [0; UNIT];
    header.copy_from_slice(&arena[start..start + UNIT]);
    &arena[start + UNIT..start + UNIT + u64::from_le_bytes(header) as usize]
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
            let len = (state >> 60) as usize * if state & 0x3F00_0000 == 0 { 40 } else { 2 };
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
