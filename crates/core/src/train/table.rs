//! piece -> count, without an allocation per piece.
//!
//! A slot is 24 bytes. Pieces of up to [`INLINE`] bytes live in their slot; longer ones in one arena.

use super::hash;
use super::spill::partition_of;

const SMALLEST: usize = 1 << 12;
/// The longest piece that a slot holds whole: its first and its last eight bytes.
const INLINE: usize = 16;
/// Arena offsets are counted in these units, so that 32 bits reach 32 GiB.
const UNIT: usize = 8;
/// The bits of a hash that are the index of a slot, from this one up.
const INDEX_SHIFT: u32 = 20;
/// In place of the length of a piece that is at least this long: the arena holds the length before the bytes.
const LONG: usize = 255;
/// The highest count; a counter whose sum exceeds it is refused.
pub const MOST: u64 = u64::MAX >> 8;

#[derive(Clone, Copy, Default)]
struct Slot {
    head: u64,
    /// As [`PieceKey::rest`]; the lower half is where the arena holds the piece, if it is not inline.
    rest: u64,
    /// The count above the length. No piece is stored without a count, so zero marks a free slot.
    counted: u64,
}

impl Slot {
    #[inline(always)]
    fn len(&self) -> usize {
        (self.counted & 0xFF) as usize
    }

    #[inline(always)]
    fn count(&self) -> u64 {
        self.counted >> 8
    }

    #[inline(always)]
    fn index(&self) -> u64 {
        if self.len() > INLINE {
            return self.rest >> 32;
        }
        hash::of_words(self.head, self.rest, self.len()) >> INDEX_SHIFT
    }
}

/// What finds a piece in a table.
#[derive(Clone, Copy, Default)]
pub struct PieceKey {
    head: u64,
    /// The last eight bytes of a piece of 9 to 16 bytes, zero if it is shorter. For a longer one, bits of the hash
    /// in the upper half.
    rest: u64,
    pub(super) hash: u64,
}

impl PieceKey {
    /// Returns the key of `text[start..end]`.
    #[inline(always)]
    pub fn of(text: &[u8], start: usize, end: usize) -> Self {
        let (head, mut rest) = hash::ends_in(text, start, end);
        let len = end - start;
        let hash = if len <= INLINE {
            hash::of_words(head, rest, len)
        } else {
            hash::of_piece(&text[start..end])
        };
        if len > INLINE {
            rest = hash >> INDEX_SHIFT << 32;
        }
        Self { head, rest, hash }
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
        self.add_seen(piece, PieceKey::of(piece, 0, piece.len()), count, u64::MAX);
    }

    /// Asks the processor to fetch a piece's slot ahead of [`PieceTable::add_seen`].
    #[inline(always)]
    pub fn prefetch(&self, key: PieceKey) {
        super::prefetch(&self.slots, (key.hash >> INDEX_SHIFT) as usize & (self.slots.len() - 1));
    }

    /// Adds `count` occurrences of a piece whose key is known and that occurs at `place`.
    #[inline(always)]
    pub fn add_seen(&mut self, piece: &[u8], key: PieceKey, count: u64, place: u64) {
        let mut at = self.find(piece, key);
        let slot = &mut self.slots[at];
        if slot.counted > 0 {
            let sum = slot.count().saturating_add(count).min(MOST);
            slot.counted = sum << 8 | slot.counted & 0xFF;
        } else if count == 0 {
            return;
        } else {
            at = self.insert(at, piece, key, count);
        }
        if let Some(first) = self.firsts.get_mut(at) {
            *first = place.min(*first);
        }
    }

    /// Returns the slot of a piece, or the free one where it belongs.
    #[inline(always)]
    fn find(&self, piece: &[u8], key: PieceKey) -> usize {
        let (len, mask) = (piece.len().min(LONG), self.slots.len() - 1);
        let start_bits = if len > INLINE { u64::from(u32::MAX) } else { 0 };
        let mut at = (key.hash >> INDEX_SHIFT) as usize & mask;
        loop {
            let slot = &self.slots[at];
            let found = slot.head == key.head
                && slot.rest & !start_bits == key.rest
                && slot.len() == len
                && (len <= INLINE || stored(&self.arena, slot) == piece);
            if found || slot.counted == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, mut at: usize, piece: &[u8], key: PieceKey, count: u64) -> usize {
        if (self.filled + 1) * 4 > self.slots.len() * 3 {
            self.grow();
            at = self.free_slot(key.hash >> INDEX_SHIFT);
        }
        let start = self.arena.len() / UNIT * usize::from(piece.len() > INLINE);
        if piece.len() >= LONG {
            self.arena.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        }
        if piece.len() > INLINE {
            self.arena.extend_from_slice(piece);
            self.arena.resize(self.arena.len().next_multiple_of(UNIT), 0);
        }
        self.slots[at] = Slot {
            head: key.head,
            rest: key.rest | start as u64,
            counted: count.min(MOST) << 8 | piece.len().min(LONG) as u64,
        };
        self.filled += 1;
        at
    }

    /// Returns the first free slot for a piece that is not in the table.
    fn free_slot(&self, index: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = index as usize & mask;
        while self.slots[at].counted > 0 {
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
            if slot.counted > 0 {
                let at = self.free_slot(slot.index());
                self.slots[at] = slot;
                if let Some(&first) = firsts.get(from) {
                    self.firsts[at] = first;
                }
            }
        }
    }

    /// Adds every count of `other`. Its pieces come in the order of the hash, so a table that is nearly full before it
    /// grows would be overfull at its beginning: it grows first.
    pub fn absorb(&mut self, other: &Self) {
        let mut missing = 0;
        other.for_each_entry(|entry| {
            let key = PieceKey::of(entry.piece, 0, entry.piece.len());
            missing += usize::from(self.slots[self.find(entry.piece, key)].counted == 0);
        });
        while (self.filled + missing) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        other.for_each_entry(|entry| {
            let key = PieceKey::of(entry.piece, 0, entry.piece.len());
            self.add_seen(entry.piece, key, entry.count, entry.first);
        });
    }

    /// Calls `each` with every piece, in no particular order.
    pub fn for_each_entry(&self, mut each: impl FnMut(CountedPiece<'_>)) {
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.counted > 0 {
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
        let filled = (0..self.slots.len() as u32).filter(|&at| self.slots[at as usize].counted > 0);
        let mut order: Vec<(u32, u32)> =
            filled.map(|at| (self.partition(&self.slots[at as usize]) as u32, at)).collect();
        order.sort_unstable_by(|&(part, a), &(other, b)| {
            let (a, b) = (&self.slots[a as usize], &self.slots[b as usize]);
            let (mut first, mut second) = ([0; INLINE], [0; INLINE]);
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
    fn piece<'a>(&'a self, slot: &Slot, raw: &'a mut [u8; INLINE]) -> &'a [u8] {
        let len = slot.len();
        if len > INLINE {
            return stored(&self.arena, slot);
        }
        raw[..8].copy_from_slice(&slot.head.to_le_bytes());
        if len > 8 {
            raw[len - 8..len].copy_from_slice(&slot.rest.to_le_bytes());
        }
        &raw[..len]
    }

    fn partition(&self, slot: &Slot) -> usize {
        let mut raw = [0; INLINE];
        let piece = self.piece(slot, &mut raw);
        partition_of(PieceKey::of(piece, 0, piece.len()).hash)
    }

    #[inline(always)]
    fn visit(&self, at: usize, each: &mut impl FnMut(CountedPiece<'_>)) {
        let slot = &self.slots[at];
        each(CountedPiece {
            piece: self.piece(slot, &mut [0; INLINE]),
            count: slot.count(),
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
    let (start, len) = (slot.rest as u32 as usize * UNIT, slot.len());
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
            let piece: Vec<u8> = (0..len).map(|i| (state >> (20 + i % 9)) as u8 & 7).collect();
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
        table.for_each_entry(|entry| assert_eq!(entry.count, MOST));
    }
}
