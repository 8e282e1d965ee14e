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

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0u8; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(raw))
}

/// Returns the first eight bytes, little-endian, zero above the piece's end: with the length it is the whole
/// of a piece of up to eight bytes.
#[inline(always)]
pub fn head(piece: &[u8]) -> u64 {
    let n = piece.len();
    match n {
        0 => 0,
        1 => u64::from(piece[0]),
        2 | 3 => {
            let first = u64::from(piece[0]) | u64::from(piece[1]) << 8;
            first | u64::from(piece[n - 1]) << (8 * (n - 1))
        }
        4..=7 => half(piece, 0) | half(piece, n - 4) << (8 * (n - 4)),
        _ => word(piece, 0),
    }
}

/// [`head`] of `text[start..end]`, with one load wherever eight bytes can be read.
#[inline(always)]
pub fn head_in(text: &[u8], start: usize, end: usize) -> u64 {
    let len = end - start;
    match text.get(start..start + 8) {
        Some(eight) if len < 8 => word(eight, 0) & ((1 << (8 * len)) - 1),
        Some(eight) => word(eight, 0),
        None => head(&text[start..end]),
    }
}

/// Hash of a piece whose [`head`] is already known.
#[inline(always)]
pub fn of_piece(piece: &[u8], head: u64) -> u64 {
    let n = piece.len();
    if n <= 8 {
        return fold(head ^ SALT, SPREAD ^ ((n as u64) << 1));
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
    fn head_holds_short_pieces_whole() {
        for n in 0..=8usize {
            let piece: Vec<u8> = (1..=n as u8).collect();
            let mut raw = [0u8; 8];
            raw[..n].copy_from_slice(&piece);
            assert_eq!(head(&piece), u64::from_le_bytes(raw), "length {n}");
            let longer = [&[7, 7, 7], piece.as_slice(), &[9; 9]].concat();
            for text in [&longer[..3 + n], &longer[..]] {
                assert_eq!(head_in(text, 3, 3 + n), head(&piece), "length {n}");
            }
        }
    }

    #[test]
    fn length_is_part_of_the_hash() {
        let zeros = [0u8; 40];
        let mut seen: Vec<u64> = (0..40)
            .map(|n| of_piece(&zeros[..n], head(&zeros[..n])))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 40);
    }
}
