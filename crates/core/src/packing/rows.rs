//! Loops that build rows: framing documents, copying segments and filling columns.

use super::check_offsets;
use crate::{Error, Result};

/// Copies every document `ids[offsets[d]..offsets[d + 1]]` with `bos` before it and `eos` after it, each
/// if given, into a new flat buffer of the stored type. Returns the buffer and its offsets from 0.
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
    Error::Input(format!("token id {id} does not fit in 16 bits: write uint32 instead"))
}

/// Copies `ids[from[s]..from[s] + length[s]]` to `out[to[s]..]` for every segment `s`.
pub fn copy_segments<T: Copy>(
    ids: &[T],
    from: &[i64],
    to: &[i64],
    length: &[i64],
    out: &mut [T],
) -> Result<()> {
    for ((&from, &to), &length) in from.iter().zip(to).zip(length) {
        let (from, to, length) = (from as usize, to as usize, length as usize);
        let source = from.checked_add(length).and_then(|end| ids.get(from..end));
        let target = to.checked_add(length).and_then(|end| out.get_mut(to..end));
        match (source, target) {
            (Some(source), Some(target)) => target.copy_from_slice(source),
            _ => {
                return Err(Error::Input(format!(
                    "segment of {length} ids from {from} to {to} is out of bounds"
                )))
            }
        }
    }
    Ok(())
}

/// The rows of one shard of a view: row `r` has the parts `bounds[r]..bounds[r + 1]`, each of which is a
/// little-endian `u64` start in the shard and `u32` length.
pub struct Rows<'a> {
    /// Where the parts of each row begin, and the end.
    pub bounds: &'a [i64],
    /// 12 bytes for each part.
    pub parts: &'a [u8],
    /// Tokens in a row.
    pub length: usize,
    /// Parts begin at multiples of this.
    pub multiple: usize,
}

const PART: usize = 12;

/// Fills `out[to[i] * length..]` with row `rows[i]` for every `i`, and with `pad` where it has no tokens.
pub fn copy_rows<T: Copy>(
    ids: &[T],
    view: &Rows,
    rows: &[i64],
    to: &[i64],
    pad: T,
    out: &mut [T],
) -> Result<()> {
    for (&row, &to) in rows.iter().zip(to) {
        copy_row(ids, view, row as usize, to as usize, pad, out)
            .ok_or_else(|| Error::Input(format!("row {row} is out of bounds")))?;
    }
    Ok(())
}

fn copy_row<T: Copy>(
    ids: &[T],
    view: &Rows,
    row: usize,
    to: usize,
    pad: T,
    out: &mut [T],
) -> Option<()> {
    let start = to.checked_mul(view.length)?;
    let target = out.get_mut(start..start.checked_add(view.length)?)?;
    let (first, last) = (*view.bounds.get(row)?, *view.bounds.get(row + 1)?);
    let parts =
        view.parts.get((first as usize).checked_mul(PART)?..(last as usize).checked_mul(PART)?)?;
    let mut place = 0;
    for part in parts.chunks_exact(PART) {
        let from = u64::from_le_bytes(part[..8].try_into().ok()?) as usize;
        let size = u32::from_le_bytes(part[8..].try_into().ok()?) as usize;
        let next = (place + size).next_multiple_of(view.multiple);
        target
            .get_mut(place..place + size)?
            .copy_from_slice(ids.get(from..from.checked_add(size)?)?);
        target.get_mut(place + size..next)?.fill(pad);
        place = next;
    }
    target.get_mut(place..)?.fill(pad);
    Some(())
}

/// Types of columns.
pub trait Cell: Copy {
    /// Returns the value as this type; the caller's numbers fit.
    fn of(value: i64) -> Self;
}

macro_rules! cell {
    ($($type:ty),*) => {$(
        impl Cell for $type {
            fn of(value: i64) -> Self {
                value as $type
            }
        }
    )*};
}

cell!(i8, i32, i64);

/// Writes `firsts[s], firsts[s] + step, …` to `out[to[s]..to[s] + length[s]]` for every run `s`.
pub fn fill_runs<T: Cell>(
    firsts: &[i64],
    step: i64,
    to: &[i64],
    length: &[i64],
    out: &mut [T],
) -> Result<()> {
    for ((&first, &to), &length) in firsts.iter().zip(to).zip(length) {
        let (start, count) = (to as usize, length as usize);
        let Some(run) = start.checked_add(count).and_then(|end| out.get_mut(start..end)) else {
            return Err(Error::Input(format!("run of {length} items at {to} is out of bounds")));
        };
        if step == 0 {
            run.fill(T::of(first));
        } else {
            for (item, value) in run.iter_mut().zip(0..) {
                *item = T::of(first + step * value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn copies_and_checks() {
        let mut out = [0u16; 6];
        copy_segments(&[1, 2, 3, 4], &[2, 0], &[0, 4], &[2, 2], &mut out).unwrap();
        assert_eq!(out, [3, 4, 0, 0, 1, 2]);
        assert!(copy_segments(&[1u16], &[0], &[5], &[2], &mut out).is_err());
        assert!(copy_segments(&[1u16], &[-1], &[0], &[1], &mut out).is_err());
    }

    #[test]
    fn fills_and_checks() {
        let mut out = [-1i32; 6];
        fill_runs(&[7, 9], 0, &[0, 4], &[2, 1], &mut out).unwrap();
        assert_eq!(out, [7, 7, -1, -1, 9, -1]);
        fill_runs(&[0, 0], 1, &[0, 3], &[3, 3], &mut out).unwrap();
        assert_eq!(out, [0, 1, 2, 0, 1, 2]);
        assert!(fill_runs(&[0], 0, &[5], &[2], &mut out).is_err());
        assert!(fill_runs(&[0], 0, &[-1], &[1], &mut out).is_err());
    }
}
