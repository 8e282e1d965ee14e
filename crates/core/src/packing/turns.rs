//! Rows of several sources dealt out so that every prefix holds its share of each source, to the row.
//!
//! After `n` rows of a period, source `i` is due `D_i(n) = turns_i * n / period` of them; all dues add up to `n`.
//! Turn `k` of a source may come at place `p` if `D(p + 1) > k`, and must come before the first place with
//! `D(p) >= k + 1`. Of the turns that may come, the one that must come first does. In any places `a..b` at most
//! `floor(D_i(b)) - ceil(D_i(a))` turns of source `i` have their whole window, together no more than `b - a`; so that
//! order meets every window (Hall's condition, for jobs of one unit), and after `n` rows each source has given more
//! than `D_i(n) - 1` and fewer than `D_i(n) + 1`.

use crate::stop::Stop;
use crate::{Error, Result};

/// Returns the source of each row of a period, in which each source has so many turns.
pub fn deal_turns(turns: &[u32], stop: &Stop) -> Result<Vec<u16>> {
    let period: u64 = turns.iter().map(|&turns| u64::from(turns)).sum();
    if u16::try_from(turns.len()).is_err() || u32::try_from(period).is_err() {
        return Err(Error::Input(
            "a mixture has at most 65,535 sources and a period below 2^32 rows".into(),
        ));
    }
    let mut next: Vec<Turn> = turns.iter().map(|&turns| Turn::new(0, turns, period)).collect();
    let mut order = Vec::with_capacity(period as usize);
    for place in 0..period {
        if place % (1 << 16) == 0 {
            stop.check()?;
        }
        let open = (0..next.len()).filter(|&source| next[source].opens <= place);
        let Some(chosen) = open.min_by_key(|&source| next[source].closes) else {
            return Err(Error::Internal(format!("no source has a turn at row {place}")));
        };
        next[chosen] = Turn::new(next[chosen].number + 1, turns[chosen], period);
        order.push(chosen as u16);
    }
    Ok(order)
}

/// The next turn of a source: the first place where it may come, and the first that is too late.
struct Turn {
    number: u64,
    opens: u64,
    closes: u64,
}

impl Turn {
    fn new(number: u64, turns: u32, period: u64) -> Self {
        let turns = u64::from(turns);
        let never = || u64::MAX;
        Self {
            number,
            opens: (number * period).checked_div(turns).unwrap_or_else(never),
            closes: match turns {
                0 => never(),
                _ => ((number + 1) * period).div_ceil(turns),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_holds_its_share() {
        for turns in [&[2, 1][..], &[6, 3, 1], &[0, 5], &[37, 1, 12, 50], &[7]] {
            let order = deal_turns(turns, &Stop::new()).unwrap();
            let period: u32 = turns.iter().sum();
            assert_eq!(order.len(), period as usize);
            let mut counts = vec![0; turns.len()];
            for (row, &chosen) in (1..).zip(&order) {
                counts[usize::from(chosen)] += 1;
                for (count, &turns) in counts.iter().zip(turns) {
                    let (given, due) = (i64::from(period) * count, i64::from(turns) * row);
                    assert!((given - due).abs() < i64::from(period), "row {row}");
                }
            }
        }
    }

    #[test]
    fn two_to_one() {
        assert_eq!(deal_turns(&[2, 1], &Stop::new()).unwrap(), [0, 0, 1]);
        assert!(deal_turns(&[u32::MAX, 1], &Stop::new()).is_err());
    }
}
