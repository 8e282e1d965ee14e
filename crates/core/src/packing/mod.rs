//! Loops over flat `(ids, offsets)` and flat texts that `NumPy` cannot do in one pass.

mod best_fit;
mod rows;
mod texts;
mod turns;

pub use best_fit::best_fit;
pub use rows::{copy_rows, copy_segments, fill_runs, frame, Cell, Rows};
pub use texts::{blank_texts, hash_texts, StringCounter};
pub use turns::deal_turns;

use crate::{Error, Result};

/// Checks that `offsets` start at or above 0, never decrease, and end within `length` items.
pub(crate) fn check_offsets(offsets: &[i64], length: usize) -> Result<()> {
    let in_order = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = offsets.first().copied().unwrap_or(-1);
    let last = offsets.last().copied().unwrap_or(-1);
    if in_order && first >= 0 && usize::try_from(last).is_ok_and(|last| last <= length) {
        return Ok(());
    }
    Err(Error::Input(format!(
        "offsets must start at 0 or above, never decrease and end at {length} at most; they go from {first} to {last}"
    )))
}
