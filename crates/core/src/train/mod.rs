//! Training: texts -> counts of pieces -> merges.
//!
//! Counting is parallel and its sums do not depend on order; merging is exact, on one thread. Neither
//! the thread count, nor the cut into blocks, nor a spill to disk can change the result.

mod choose;
mod count;
mod counts;
mod hash;
mod heap;
mod history;
mod join;
mod lists;
mod merge;
#[cfg(test)]
mod merge_tests;
mod neighbours;
mod pairs;
mod queue;
mod recount;
mod spill;
mod table;
mod tokens;
mod veto;
mod words;

pub use count::{CountOptions, Counter, Texts, Totals};
pub use counts::{CountedPieces, Counts};
pub use heap::TieBreak;
pub use merge::{MergeOptions, Merger};
pub use table::PieceTable;
pub use tokens::{byte_order, TokenList};
pub use veto::{in_scripts, Veto};
pub use words::{CountSource, Words};

/// Asks for `slice[index]` ahead of its use; an index past the end does no harm.
#[inline(always)]
fn prefetch<T>(slice: &[T], index: usize) {
    crate::pages::prefetch(slice.as_ptr().wrapping_add(index));
}
