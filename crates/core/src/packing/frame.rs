//! Documents with BOS and EOS around them, narrowed to the type that is stored, in one pass.

use super::check_offsets;
use crate::{Error, Result};

/// Copies every document `ids[offsets[d]..offsets[d + 1]]` with `bos` before it and `eos` after it, each
/// if given, into a new flat buffer of the stored type; gives the buffer and its offsets from 0.
///
/// Fails if an id does not fit the stored type.
pub fn frame<I, O>(
    ids: &[I],
    offsets: &[i64],
    bos: Option<O>,
    eos: Option<O>,
) -> Result<(Vec<O>, Vec<i64>)>
where
    I: Copy + Into<u32>,
    O: Copy + TryFrom<u32>,
{
    check_offsets(offsets, ids.len())?;
    let documents = offsets.len() - 1;
    let total = (offsets[documents] - offsets[0]) as usize;
    let extra = documents * (usize::from(bos.is_some()) + usize::from(eos.is_some()));
    let mut out = Vec::with_capacity(total + extra);
    let mut ends = Vec::with_capacity(documents + 1);
    ends.push(0);
    for pair in offsets.windows(2) {
        out.extend(bos);
        for &id in &ids[pair[0] as usize..pair[1] as usize] {
            out.push(O::try_from(id.into()).map_err(|_| too_wide(id.into()))?);
        }
        out.extend(eos);
        ends.push(out.len() as i64);
    }
    Ok((out, ends))
}

#[cold]
fn too_wide(id: u32) -> Error {
    Error::Input(format!(
        "token id {id} does not fit in 16 bits: write uint32 instead"
    ))
}

#[cfg(test)]
mod tests {
    use super::frame;

    #[test]
    fn adds_both_ends() {
        let (ids, offsets) =
            frame::<u32, u16>(&[1, 2, 3], &[0, 2, 2, 3], Some(8), Some(9)).unwrap();
        assert_eq!(ids, [8, 1, 2, 9, 8, 9, 8, 3, 9]);
        assert_eq!(offsets, [0, 4, 6, 9]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert!(frame::<u32, u16>(&[65_536], &[0, 1], None, None).is_err());
        assert!(frame::<u32, u16>(&[1], &[0, 2], None, None).is_err());
        assert!(frame::<u32, u16>(&[1], &[1, 0], None, None).is_err());
    }
}
