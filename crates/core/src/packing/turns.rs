//! Whose turn it is: rows of several sources dealt out so that every prefix has its due of each, to the row.
//!
//! After `n` rows source `i` is due `D_i(n)` of them, a number that never falls, and the dues of all sources add up to
//! `n`. Turn `k` of a source may come at place `p` if `D(p + 1) > k`, and must come before the first place with
//! `D(p) >= k + 1`. Of the turns that may come, the one that must come first does. In any places `a..b` at most
//! `floor(D_i(b)) - ceil(D_i(a))` turns of source `i` have their whole window, together no more than `b - a`; so that
//! order meets every window (Hall's condition, for jobs of one unit), and after `n` rows each source has given more
//! than `D_i(n) - 1` and fewer than `D_i(n) + 1`.

use crate::stop::Stop;
use crate::{Error, Result};

/// From row `start` on, after `x` more rows, `(base + linear * x + quadratic * x * x) / unit` rows of each source are due.
pub struct Due {
    /// The row at which this holds first.
    pub start: i64,
    /// `(base, linear, quadratic)` of each source.
    pub shares: Vec<(i128, i128, i128)>,
}

/// The sources of `length` rows from row `start` on, where each source has had `counts` turns; `counts` is brought up
/// to date.
pub fn deal_turns(
    unit: i128,
    dues: &[Due],
    start: i64,
    counts: &mut [i64],
    length: usize,
    stop: &Stop,
) -> Result<Vec<u16>> {
    check(unit, dues, start, counts)?;
    let mut windows: Vec<Window> = (0..counts.len())
        .map(|source| Window::of(unit, dues, source, counts[source], 0))
        .collect();
    let mut order = Vec::with_capacity(length);
    for place in start..start + length as i64 {
        if order.len() % (1 << 16) == 0 {
            stop.check()?;
        }
        let open = (0..windows.len()).filter(|&source| windows[source].opens <= place);
        let Some(chosen) = open.min_by_key(|&source| windows[source].closes) else {
            return Err(Error::Internal(format!(
                "no source has a turn at row {place}"
            )));
        };
        counts[chosen] += 1;
        let near = windows[chosen].closes.min(place);
        windows[chosen] = Window::of(unit, dues, chosen, counts[chosen], near);
        order.push(chosen as u16);
    }
    Ok(order)
}

fn check(unit: i128, dues: &[Due], start: i64, counts: &[i64]) -> Result<()> {
    let fits = unit > 0
        && start >= 0
        && u16::try_from(counts.len()).is_ok()
        && dues.first().is_some_and(|due| due.start == 0)
        && dues.windows(2).all(|pair| pair[0].start < pair[1].start)
        && dues.iter().all(|due| due.shares.len() == counts.len());
    if fits {
        return Ok(());
    }
    Err(Error::Input(
        "turns need a unit above 0, dues in ascending order from row 0, and a share and a count for each source".into(),
    ))
}

/// Where the next turn of a source may come first, and the first place that is too late.
struct Window {
    opens: i64,
    closes: i64,
}

impl Window {
    fn of(unit: i128, dues: &[Due], source: usize, turn: i64, from: i64) -> Self {
        let turn = i128::from(turn);
        let opens = reach(dues, source, turn * unit + 1, from);
        let closes = reach(dues, source, (turn + 1) * unit, opens.min(i64::MAX - 1));
        Self {
            opens: opens.saturating_sub(1),
            closes,
        }
    }
}

/// The first row from `from` on at which `wanted` is due of a source; `i64::MAX` if there is none.
fn reach(dues: &[Due], source: usize, wanted: i128, from: i64) -> i64 {
    let first = dues
        .partition_point(|due| due.start <= from)
        .saturating_sub(1);
    for (nth, due) in dues.iter().enumerate().skip(first) {
        let (base, linear, quadratic) = due.shares[source];
        let at = |x: i64| base + i128::from(x) * (linear + i128::from(x) * quadratic);
        let end = dues.get(nth + 1).map(|next| next.start - due.start);
        let low = (from - due.start).max(0);
        if at(low) >= wanted {
            return due.start + low;
        }
        if end.is_some_and(|end| at(end) < wanted) || (end.is_none() && linear <= 0) {
            continue;
        }
        if quadratic == 0 {
            // What is missing will become due: `linear` is above 0.
            let missing = wanted - base;
            return due.start + ((missing + linear - 1) / linear) as i64;
        }
        return due.start + bisect(at, wanted, low, end.unwrap_or(i64::MAX >> 1));
    }
    i64::MAX
}

/// The first `x` above `low` with `at(x) >= wanted`, where `at(low) < wanted <= at(high)`; quick if it is near `low`.
fn bisect(at: impl Fn(i64) -> i128, wanted: i128, mut low: i64, mut high: i64) -> i64 {
    let mut step = 1;
    while low + step < high {
        if at(low + step) >= wanted {
            high = low + step;
            break;
        }
        low += step;
        step *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if at(middle) >= wanted {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::{deal_turns, Due};
    use crate::stop::Stop;

    fn deal(unit: i128, dues: &[Due], start: i64, counts: &mut [i64], length: usize) -> Vec<u16> {
        deal_turns(unit, dues, start, counts, length, &Stop::new()).unwrap()
    }

    fn constant(start: i64, bases: &[i128], weights: &[i128]) -> Due {
        let shares = bases
            .iter()
            .zip(weights)
            .map(|(&base, &weight)| (base, weight, 0));
        Due {
            start,
            shares: shares.collect(),
        }
    }

    /// Every prefix has its due of each source, to the row.
    fn assert_due(unit: i128, dues: &[Due], order: &[u16]) {
        let sources = dues[0].shares.len();
        let mut counts = vec![0_i128; sources];
        for row in 0..=order.len() {
            let due = dues
                .iter()
                .rev()
                .find(|due| due.start <= row as i64)
                .unwrap();
            let x = row as i128 - i128::from(due.start);
            for (source, &count) in counts.iter().enumerate() {
                let (base, linear, quadratic) = due.shares[source];
                let owed = base + linear * x + quadratic * x * x;
                assert!(
                    (count * unit - owed).abs() < unit,
                    "source {source} at row {row}"
                );
            }
            if let Some(&chosen) = order.get(row) {
                counts[usize::from(chosen)] += 1;
            }
        }
    }

    #[test]
    fn two_to_one() {
        let dues = [constant(0, &[0, 0], &[2, 1])];
        assert_eq!(deal(3, &dues, 0, &mut [0, 0], 6), [0, 0, 1, 0, 0, 1]);
    }

    #[test]
    fn a_change_in_the_middle_keeps_every_prefix() {
        // Weights 6/10, 3/10, 1/10; from row 37 on 1/10, 0, 9/10.
        let dues = [
            constant(0, &[0, 0, 0], &[6, 3, 1]),
            constant(37, &[222, 111, 37], &[1, 0, 9]),
        ];
        let order = deal(10, &dues, 0, &mut [0, 0, 0], 400);
        assert_due(10, &dues, &order);
    }

    #[test]
    fn a_linear_change_keeps_every_prefix_and_goes_on_from_anywhere() {
        // From all of the first to all of the second over 100 rows: after x rows x * x / 200 of the second.
        let dues = [
            Due {
                start: 0,
                shares: vec![(0, 200, -1), (0, 0, 1)],
            },
            constant(100, &[10_000, 10_000], &[0, 200]),
        ];
        let whole = deal(200, &dues, 0, &mut [0, 0], 150);
        assert_due(200, &dues, &whole);
        let mut counts = [0, 0];
        let mut parts = deal(200, &dues, 0, &mut counts, 63);
        parts.extend(deal(200, &dues, 63, &mut counts, 87));
        assert_eq!(parts, whole);
    }

    #[test]
    fn nonsense_is_refused() {
        let dues = [constant(0, &[0], &[1])];
        assert!(deal_turns(0, &dues, 0, &mut [0], 1, &Stop::new()).is_err());
        assert!(deal_turns(1, &dues, 0, &mut [0, 0], 1, &Stop::new()).is_err());
        assert!(deal_turns(1, &[], 0, &mut [0], 1, &Stop::new()).is_err());
        let nobody = [constant(0, &[0], &[0])];
        assert!(deal_turns(1, &nobody, 0, &mut [0], 1, &Stop::new()).is_err());
    }
}
