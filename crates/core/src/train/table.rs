//! piece -> u64 count, without an allocation per piece.
//!
//! A slot is 32 bytes. Pieces of up to eight bytes live in their slot; longer ones in one arena.

use super::hash;
use super::spill::partition_of;

const SMALLEST: usize = 1 << 12;
/// Arena offsets are counted in these units, so that 32 bits reach 32 GiB.
const UNIT: usize = 8;

/// Aligned, so that a look at a slot touches one cache line.
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
    /// The key of `text[start..end]`.
    #[inline(always)]
    pub fn of(text: &[u8], start: usize, end: usize) -> Self {
        let head = hash::head_in(text, start, end);
        let hash = hash::of_piece(&text[start..end], head);
        Self { head, hash }
    }
}

/// Counts of distinct pieces.
pub struct PieceTable {
    slots: Vec<Slot>,
    filled: usize,
    arena: Vec<u8>,
}

impl Default for PieceTable {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SMALLEST],
            filled: 0,
            arena: Vec::new(),
        }
    }
}

impl PieceTable {
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

    /// Adds `count` occurrences of a piece whose key is known.
    #[inline(always)]
    pub fn add_known(&mut self, piece: &[u8], key: PieceKey, count: u64) {
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
                return;
            }
            at = (at + 1) & mask;
        }
        if count > 0 {
            self.insert(at, piece, key, count);
        }
    }

    #[cold]
    fn insert(&mut self, at: usize, piece: &[u8], key: PieceKey, count: u64) {
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
        if self.filled * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let wider = crate::pages::filled(Slot::default(), self.slots.len() * 2);
        let mask = wider.len() - 1;
        let old = std::mem::replace(&mut self.slots, wider);
        for slot in old.into_iter().filter(|slot| slot.count > 0) {
            let mut at = (slot.hash >> 20) as usize & mask;
            while self.slots[at].count > 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// Adds every count of `other`.
    pub fn absorb(&mut self, other: &Self) {
        other.for_each_hashed(|piece, hash, count| {
            let head = hash::head(piece);
            self.add_known(piece, PieceKey { head, hash }, count);
        });
    }

    /// Calls `each(piece, hash, count)` for every piece, in no stated order.
    pub fn for_each_hashed(&self, mut each: impl FnMut(&[u8], u64, u64)) {
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            self.tell(slot, &mut each);
        }
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

    /// Which stretch of [`PieceTable::order`] belongs to one partition.
    pub fn part_of(&self, order: &[u32], part: usize) -> std::ops::Range<usize> {
        let below =
            |limit| order.partition_point(|&at| partition_of(self.slots[at as usize].hash) < limit);
        below(part)..below(part + 1)
    }

    /// Calls `each(piece, count)` for the given slots.
    pub fn for_each_of(&self, slots: &[u32], mut each: impl FnMut(&[u8], u64)) {
        for &at in slots {
            self.tell(&self.slots[at as usize], |piece, _, count| {
                each(piece, count);
            });
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
    fn tell(&self, slot: &Slot, mut each: impl FnMut(&[u8], u64, u64)) {
        let raw = slot.head.to_le_bytes();
        let piece = if slot.len <= 8 {
            &raw[..slot.len as usize]
        } else {
            stored(&self.arena, slot)
        };
        each(piece, slot.hash, slot.count);
    }

    /// How many distinct pieces there are.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True before the first piece.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Bytes held, with what the next growth will take on top while it copies.
    pub fn memory(&self) -> usize {
        self.slots.len() * std::mem::size_of::<Slot>() + self.arena.capacity()
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
        table.for_each_hashed(|piece, _, count| {
            assert!(found.insert(piece.to_vec(), count).is_none());
        });
        assert_eq!(found, expected);
        assert_eq!(table.len(), expected.len());
    }

    #[test]
    fn a_count_never_wraps() {
        let mut table = PieceTable::default();
        table.add(b"a", u64::MAX - 1);
        table.add(b"a", 5);
        table.for_each_hashed(|_, _, count| assert_eq!(count, u64::MAX));
    }
}
