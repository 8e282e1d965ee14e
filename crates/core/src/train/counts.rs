//! Finished counts, in memory or on disk, read in the same order either way.

use std::sync::OnceLock;

use super::spill::{Spilled, PARTITIONS};
use super::table::{CountedPiece, PieceTable};
use super::words::CountSource;
use crate::Result;

/// All distinct pieces with their counts.
pub struct Counts {
    place: Home,
    /// The order of the slots, made for the first batch.
    order: OnceLock<Vec<u32>>,
}

enum Home {
    Memory(PieceTable),
    Disk(Spilled),
}

/// Some pieces, flat: piece `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Default)]
pub struct CountedPieces {
    /// The pieces' bytes, one after the other.
    pub data: Vec<u8>,
    /// One more than there are pieces.
    pub offsets: Vec<i64>,
    /// The count of each piece.
    pub counts: Vec<u64>,
}

impl Counts {
    /// Counts that fit in memory.
    pub fn in_memory(table: PieceTable) -> Self {
        Self { place: Home::Memory(table), order: OnceLock::new() }
    }

    /// Counts that were spilled to disk.
    pub fn on_disk(spilled: Spilled) -> Self {
        Self { place: Home::Disk(spilled), order: OnceLock::new() }
    }

    /// Returns how many distinct pieces there are.
    pub fn unique(&self) -> u64 {
        match &self.place {
            Home::Memory(table) => table.len() as u64,
            Home::Disk(spilled) => spilled.unique,
        }
    }

    /// Bytes that had to go to disk.
    pub fn spilled_bytes(&self) -> u64 {
        match &self.place {
            Home::Memory(_) => 0,
            Home::Disk(spilled) => spilled.bytes,
        }
    }

    /// Returns how many batches [`Counts::batch`] gives.
    pub fn batches(&self) -> usize {
        PARTITIONS
    }

    /// Returns one partition's pieces in ascending order: the same batches from memory and from disk.
    pub fn batch(&self, part: usize) -> Result<CountedPieces> {
        let mut batch = CountedPieces { offsets: vec![0], ..CountedPieces::default() };
        let mut push = |entry: CountedPiece<'_>| {
            batch.data.extend_from_slice(entry.piece);
            batch.offsets.push(batch.data.len() as i64);
            batch.counts.push(entry.count);
        };
        match &self.place {
            Home::Memory(table) => {
                let order = self.order.get_or_init(|| table.order());
                table.for_each_of(&order[table.part_of(order, part)], push);
            }
            Home::Disk(spilled) => spilled.for_each_in(part, &mut push)?,
        }
        Ok(batch)
    }
}

impl CountSource for Counts {
    fn in_order(&self) -> bool {
        match &self.place {
            Home::Memory(table) => table.in_order(),
            Home::Disk(spilled) => spilled.in_order,
        }
    }

    fn for_each(&mut self, each: &mut dyn FnMut(CountedPiece<'_>)) -> Result<()> {
        match &mut self.place {
            Home::Memory(table) => table.for_each(each),
            Home::Disk(spilled) => {
                (0..PARTITIONS).try_for_each(|part| spilled.for_each_in(part, each))
            }
        }
    }
}
