//! Pieces packed into integers, so that one comparison settles whether two are equal.

use super::hash::mix;

/// The longest piece of a short key: the last of 16 bytes holds the length.
pub(crate) const SHORT: usize = 15;
/// The longest piece of a long key of two words.
pub(crate) const LONG: usize = 31;

/// Low `n` bytes set.
static MASKS: [u128; 17] = {
    let mut masks = [0; 17];
    let mut n = 1;
    while n <= 16 {
        masks[n] = u128::MAX >> (128 - 8 * n);
        n += 1;
    }
    masks
};

/// Up to 16 bytes from `start`, zero-filled; reads nothing beyond `text`.
#[inline(always)]
fn load(text: &[u8], start: usize, len: usize) -> u128 {
    debug_assert!(len <= 16 && start + len <= text.len());
    match text.get(start..start + 16) {
        Some(bytes) => {
            let mut buffer = [0; 16];
            buffer.copy_from_slice(bytes);
            u128::from_le_bytes(buffer) & MASKS[len]
        }
        None => load_at_end(&text[start..start + len]),
    }
}

#[cold]
fn load_at_end(bytes: &[u8]) -> u128 {
    let mut buffer = [0; 16];
    buffer[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(buffer)
}

/// Key of a piece of 1 to [`SHORT`] bytes: bytes from the low end, length (and a tag) in the last one.
#[inline(always)]
pub(crate) fn short_key(text: &[u8], start: usize, len: usize, tag: u8) -> u128 {
    load(text, start, len) | (u128::from(len as u8 | tag) << 120)
}

/// Key of a piece of 16 to [`LONG`] bytes.
#[inline(always)]
pub(crate) fn long_key(text: &[u8], start: usize, len: usize, tag: u8) -> [u128; 2] {
    [
        load(text, start, 16),
        load(text, start + 16, len - 16) | (u128::from(len as u8 | tag) << 120),
    ]
}

/// Hash of a short key.
#[inline(always)]
pub(crate) fn hash_short(key: u128) -> u64 {
    mix(key as u64, (key >> 64) as u64)
}

/// Hash of a long key.
#[inline(always)]
pub(crate) fn hash_long(key: [u128; 2]) -> u64 {
    mix(hash_short(key[0]), hash_short(key[1]))
}
