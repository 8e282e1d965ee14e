//! How wide ids are kept: 16 or 32 bits, or not at all when only their number is asked for.

use super::added::Special;
use super::pool::Scratch;
use super::Codec;
use crate::Result;

/// One kept id.
pub(super) trait Width: Copy + Send + Sync + Default {
    /// The id at this width; it fits, since the whole vocabulary does.
    fn of(id: u32) -> Self;

    /// Appends the ids of a text.
    fn encode(
        codec: &Codec,
        text: &str,
        special: Special,
        continued: bool,
        scratch: &mut Scratch,
        out: &mut Vec<Self>,
    ) -> Result<()> {
        let mut ids = std::mem::take(&mut scratch.ids);
        ids.clear();
        let outcome = codec.encode_into(text, special, continued, scratch, &mut ids);
        out.extend(ids.iter().map(|&id| Self::of(id)));
        scratch.ids = ids;
        outcome
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
    fn encode(
        codec: &Codec,
        text: &str,
        special: Special,
        continued: bool,
        scratch: &mut Scratch,
        out: &mut Vec<Self>,
    ) -> Result<()> {
        codec.encode_into(text, special, continued, scratch, out)
    }
}

/// A vector of these has a length and no contents.
impl Width for () {
    fn of(_: u32) -> Self {}
}
