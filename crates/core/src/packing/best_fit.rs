//! Best-fit decreasing bin packing in one pass over the lengths.

use crate::{Error, Result};

/// Gives every item the bin it goes to, and its place in that bin.
///
/// Items are taken from the longest to the shortest, equal ones in their given order; each goes to the bin with the least
/// room that still holds it, and among equals to the bin that got that room last; else to a new bin. The room
/// left in bins is at most `capacity`, so the fullest fitting bin is found in a bitmap of rooms. A bin that has
/// `most` items takes no more.
pub fn best_fit(lengths: &[i64], capacity: i64, most: u64) -> Result<(Vec<i64>, Vec<i64>)> {
    if let Some(bad) = lengths.iter().find(|&&length| length < 0 || length > capacity) {
        return Err(Error::Input(format!("an item of {bad} does not fit a bin of {capacity}")));
    }
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&item| std::cmp::Reverse(lengths[item]));
    let mut rooms = Rooms::new(capacity as usize);
    let mut bins = vec![0; lengths.len()];
    let mut places = vec![0; lengths.len()];
    let mut held: Vec<u64> = Vec::new();
    for item in order {
        let length = lengths[item] as usize;
        let (room, bin) = rooms.take(length).unwrap_or_else(|| {
            held.push(0);
            (capacity as usize, held.len() as i64 - 1)
        });
        bins[item] = bin;
        places[item] = (capacity as usize - room) as i64;
        held[bin as usize] += 1;
        if held[bin as usize] < most {
            rooms.put(room - length, bin);
        }
    }
    Ok((bins, places))
}

/// Open bins by the room they have left.
struct Rooms {
    bins: Vec<Vec<i64>>,
    bits: Vec<u64>,
}

impl Rooms {
    fn new(capacity: usize) -> Self {
        Self { bins: vec![Vec::new(); capacity + 1], bits: vec![0; capacity / 64 + 1] }
    }

    fn put(&mut self, room: usize, bin: i64) {
        self.bins[room].push(bin);
        self.bits[room / 64] |= 1 << (room % 64);
    }

    fn take(&mut self, least: usize) -> Option<(usize, i64)> {
        let mut word = least / 64;
        let mut bits = self.bits[word] & (!0 << (least % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        let room = word * 64 + bits.trailing_zeros() as usize;
        let bin = self.bins[room].pop()?;
        if self.bins[room].is_empty() {
            self.bits[word] &= !(1 << (room % 64));
        }
        Some((room, bin))
    }
}

#[cfg(test)]
mod tests {
    use super::best_fit;

    #[test]
    fn fills_the_fullest_bin_that_fits() {
        let (bins, places) = best_fit(&[3, 6, 4, 7], 10, u64::MAX).unwrap();
        assert_eq!(bins, [0, 1, 1, 0]);
        assert_eq!(places, [7, 0, 6, 0]);
    }

    #[test]
    fn crosses_words_and_refuses_giants() {
        let (bins, _) = best_fit(&[100, 99, 1, 0], 200, u64::MAX).unwrap();
        assert_eq!(bins, [0, 0, 0, 0]);
        assert!(best_fit(&[201], 200, 1).is_err());
        assert!(best_fit(&[], 5, 1).unwrap().0.is_empty());
    }

    #[test]
    fn a_bin_takes_no_more_items_than_allowed() {
        let (bins, _) = best_fit(&[1, 1, 1, 1, 1], 10, 2).unwrap();
        assert_eq!(bins, [0, 0, 1, 1, 2]);
    }
}
