//! One hash of a piece's bytes, shared by counting, spilling and the vocabulary under construction.
//!
//! Not keyed: a piece table grows by load, so crafted collisions cost time but never a wrong count.

use crate::hash::{fold, SALT, SPREAD};

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0u8; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// Returns the first eight bytes of `text[start..end]`, little-endian, zero above its end, and its last eight bytes,
/// zero if it has no more than eight. With the length they are the whole of a piece of up to 16 bytes.
#[inline(always)]
pub fn ends_in(text: &[u8], start: usize, end: usize) -> (u64, u64) {
    let len = end - start;
    let head = match text.get(start..start + 8) {
        Some(eight) if len < 8 => word(eight, 0) & ((1 << (8 * len)) - 1),
        Some(eight) => word(eight, 0),
        None => {
            let mut raw = [0u8; 8];
            raw[..len].copy_from_slice(&text[start..end]);
            u64::from_le_bytes(raw)
        }
    };
    (head, if len > 8 { word(text, end - 8) } else { 0 })
}

/// Hash of a piece of up to 16 bytes, by what [`ends_in`] gives.
#[inline(always)]
pub fn of_words(head: u64, rest: u64, len: usize) -> u64 {
    fold(head ^ SALT, rest ^ SPREAD ^ ((len as u64) << 1))
}

/// Hash of a piece of any length.
#[inline(always)]
pub fn of_piece(piece: &[u8]) -> u64 {
    let n = piece.len();
    if n <= 16 {
        let (head, rest) = ends_in(piece, 0, n);
        return of_words(head, rest, n);
    }
    let mut hash = SALT ^ (n as u64);
    let mut at = 0;
    while at + 8 <= n {
        hash = fold(hash ^ word(piece, at), SPREAD);
        at += 8;
    }
    if at < n {
        hash = fold(hash ^ word(piece, n - 8), SPREAD ^ 0x55);
    }
    hash
}

/// Hash of a pair of token ids.
#[inline(always)]
pub fn of_pair(key: u64) -> u64 {
    fold(key ^ SALT, SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_hold_short_pieces_whole() {
        for n in 0..=16usize {
            let piece: Vec<u8> = (1..=n as u8).collect();
            let (mut head, mut rest) = ([0u8; 8], [0u8; 8]);
            head[..n.min(8)].copy_from_slice(&piece[..n.min(8)]);
            if n > 8 {
                rest.copy_from_slice(&piece[n - 8..]);
            }
            let expected = (u64::from_le_bytes(head), u64::from_le_bytes(rest));
            let longer = [&[7, 7, 7], piece.as_slice(), &[9; 9]].concat();
            for text in [&longer[..3 + n], &longer[..]] {
                assert_eq!(ends_in(text, 3, 3 + n), expected, "length {n}");
            }
        }
    }

    #[test]
    fn length_is_part_of_the_hash() {
        let zeros = [0u8; 40];
        let mut seen: Vec<u64> = (0..40).map(|n| of_piece(&zeros[..n])).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 40);
    }
}
