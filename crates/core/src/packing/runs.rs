//! Writes runs of numbers to their places: what columns of rows are made of.

use crate::{Error, Result};

/// Types of columns.
pub trait Cell: Copy {
    /// The value as this type; the caller's numbers fit.
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
        let Some(run) = start
            .checked_add(count)
            .and_then(|end| out.get_mut(start..end))
        else {
            return Err(Error::Input(format!(
                "run of {length} items at {to} is out of bounds"
            )));
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
    use super::fill_runs;

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
