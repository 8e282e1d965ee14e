//! How wide the stored ids are: 16 or 32 bits, or not stored at all when only their number is wanted.

use std::mem::MaybeUninit;

use crate::Result;

/// One stored id.
pub(super) trait Width: Copy + Send + Sync + Default {
    /// Returns the id at this width; it fits, since the whole vocabulary does.
    fn of(id: u32) -> Self;

    /// Fills `to` with the same number of ids.
    fn copy(ids: &[u32], to: &mut [MaybeUninit<Self>]) {
        for (to, id) in to.iter_mut().zip(ids) {
            to.write(Self::of(*id));
        }
    }

    /// Appends what `make` appends to its array; `ids` is an array to work in.
    fn append(
        out: &mut Vec<Self>,
        ids: &mut Vec<u32>,
        make: impl FnOnce(&mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        ids.clear();
        make(ids)?;
        out.extend(ids.iter().map(|&id| Self::of(id)));
        Ok(())
    }
}

impl Width for u16 {
    fn of(id: u32) -> Self {
        id as u16
    }
}

impl Width for u32 {
    fn of(id: u32) -> Self {
        id
    }

    /// The encoder writes this width itself, so nothing is copied.
    fn append(
        out: &mut Vec<Self>,
        _: &mut Vec<u32>,
        make: impl FnOnce(&mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        make(out)
    }
}

/// A vector of these has a length but no contents.
impl Width for () {
    fn of(_: u32) -> Self {}
}
