//! Copies segments of documents to their places in rows.

use crate::{Error, Result};

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

#[cfg(test)]
mod tests {
    use super::copy_segments;

    #[test]
    fn copies_and_checks() {
        let mut out = [0u16; 6];
        copy_segments(&[1, 2, 3, 4], &[2, 0], &[0, 4], &[2, 2], &mut out).unwrap();
        assert_eq!(out, [3, 4, 0, 0, 1, 2]);
        assert!(copy_segments(&[1u16], &[0], &[5], &[2], &mut out).is_err());
        assert!(copy_segments(&[1u16], &[-1], &[0], &[1], &mut out).is_err());
    }
}
