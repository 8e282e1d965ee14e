//! Pieces packed into integers, so that one comparison settles whether two are equal.

use crate::hash::{mix, SPREAD};

/// The longest piece of a short key: one byte of its sixteen holds the length.
pub(crate) const SHORT: usize = 15;
/// The longest piece of a long key.
pub(crate) const LONG: usize = 31;
/// Bytes that are read at once, including those after a short piece.
pub(crate) const READ: usize = 16;

/// A piece of 1 to [`SHORT`] bytes, and its length (with a tag) in the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct ShortKey {
    low: u64,
    high: u64,
}

impl ShortKey {
    /// A placeholder for pieces that are too long for a key: no slot holds it.
    pub(crate) const NONE: Self = Self { low: 0, high: 1 << 63 };
    /// What a slot holds before its first piece.
    pub(crate) const EMPTY: Self = Self { low: 0, high: 0 };

    /// Returns the key of `text[start..start + len]`; `tag` has bits from 0x10 to 0x40.
    #[inline(always)]
    pub(crate) fn new(text: &[u8], start: usize, len: usize, tag: u8) -> Self {
        if text.len().saturating_sub(start) >= READ {
            // SAFETY: the text was just found to have this many bytes from `start`.
            return unsafe { Self::inside(text, start, len, tag) };
        }
        Self::of_bytes(at_end(text, start, len), len, tag)
    }

    /// Returns the same key if enough text follows.
    ///
    /// # Safety
    /// `text` must have [`READ`] bytes from `start` on.
    #[inline(always)]
    pub(crate) unsafe fn inside(text: &[u8], start: usize, len: usize, tag: u8) -> Self {
        debug_assert!(start + READ <= text.len());
        // SAFETY: the caller's promise.
        let bytes = unsafe { text.as_ptr().add(start).cast::<[u8; READ]>().read() };
        Self::of_bytes(bytes, len, tag)
    }

    #[inline(always)]
    fn of_bytes(bytes: [u8; READ], len: usize, tag: u8) -> Self {
        debug_assert!((1..=SHORT).contains(&len));
        let (low_mask, high_mask) = MASKS[len % MASKS.len()];
        Self {
            low: word(&bytes[..8]) & low_mask,
            high: (word(&bytes[8..]) & high_mask) | u64::from(len as u8 | tag) << 56,
        }
    }

    /// Returns a hash whose upper bits are good: one multiplication, as every piece is hashed.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        (self.low ^ self.high.rotate_left(29)).wrapping_mul(SPREAD)
    }

    /// Returns whether both are the same, in one comparison.
    #[inline(always)]
    pub(crate) fn is(&self, other: Self) -> bool {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has SSE2, and both are sixteen bytes, aligned.
        unsafe {
            use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8};
            let load = |key: &Self| _mm_load_si128(std::ptr::from_ref(key).cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(load(self), load(&other))) == 0xFFFF
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            *self == other
        }
    }
}

/// Which bytes of the two words belong to a piece, by its length.
static MASKS: [(u64, u64); 16] = {
    let mut masks = [(0, 0); 16];
    let mut len = 1;
    while len < 16 {
        let low = if len < 8 { len } else { 8 };
        masks[len].0 = u64::MAX >> (64 - 8 * low);
        masks[len].1 = if len > 8 { u64::MAX >> (128 - 8 * len) } else { 0 };
        len += 1;
    }
    masks
};

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut buffer = [0; 8];
    buffer.copy_from_slice(bytes);
    u64::from_le_bytes(buffer)
}

/// Reads a piece at the end of its text, where sixteen bytes cannot be read from its start.
#[inline(never)]
fn at_end(text: &[u8], start: usize, len: usize) -> [u8; READ] {
    if let Some(last) = text.last_chunk() {
        let before = 8 * (start + READ - text.len()) as u32;
        return (u128::from_le_bytes(*last) >> before).to_le_bytes();
    }
    let mut buffer = [0; READ];
    buffer[..len].copy_from_slice(&text[start..start + len]);
    buffer
}

/// The key of a piece of 1 to [`LONG`] bytes. A short piece leaves the last word zero, where a long one has its
/// length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key([u64; 4]);

impl Key {
    /// The key of no piece.
    pub(crate) const NONE: Self = Self([0; 4]);

    #[inline(always)]
    pub(crate) fn new(text: &[u8], start: usize, len: usize, tag: u8) -> Self {
        if len <= SHORT {
            let ShortKey { low, high } = ShortKey::new(text, start, len, tag);
            return Self([low, high, 0, 0]);
        }
        Self(long_key(text, start, len, tag))
    }

    /// Returns whether both are the same. Compared word by word: to be compared as a vector, a key that was just built would
    /// have to go through memory.
    #[inline(always)]
    pub(crate) fn is(self, other: Self) -> bool {
        let [a, b, c, d] = self.0;
        let [e, f, g, h] = other.0;
        (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) == 0
    }

    /// Returns the same key as a short or as a long one.
    #[inline(always)]
    pub(crate) fn by_length(self) -> Result<ShortKey, [u64; 4]> {
        match self.0 {
            [low, high, _, 0] => Ok(ShortKey { low, high }),
            long => Err(long),
        }
    }
}

/// Key of a piece of 16 to [`LONG`] bytes: the bytes, and the length (with a tag) in the last place.
#[inline(always)]
pub(crate) fn long_key(text: &[u8], start: usize, len: usize, tag: u8) -> [u64; 4] {
    debug_assert!((SHORT + 1..=LONG).contains(&len));
    let mut buffer = [0; 32];
    buffer[..16].copy_from_slice(&text[start..start + 16]);
    // The last sixteen bytes overlap the first: shifted down, they need no mask and no byte beyond the piece.
    let last = &text[start + len - 16..start + len];
    let mut end = [0; 16];
    end.copy_from_slice(last);
    let end = u128::from_le_bytes(end).unbounded_shr(8 * (32 - len as u32));
    buffer[16..].copy_from_slice(&(end | u128::from(len as u8 | tag) << 120).to_le_bytes());
    [0, 8, 16, 24].map(|at| word(&buffer[at..at + 8]))
}

/// Hash of a long key.
#[inline(always)]
pub(crate) fn hash_long(key: [u64; 4]) -> u64 {
    mix(mix(key[0], key[1]), mix(key[2], key[3]))
}

#[cfg(test)]
mod tests {
    use super::{long_key, ShortKey, LONG, SHORT};

    #[test]
    fn keys_are_equal_only_for_equal_pieces() {
        let text = b"\0\0a\0\0\0bcdefgh\0\0ijklmnopqrstuvwxyz\0\0\0\0\0\0\0\0abcdefgh\0";
        let mut seen = std::collections::HashMap::new();
        for tag in [0, 0x40] {
            for len in 1..=LONG {
                for start in 0..=text.len() - len {
                    let key = if len <= SHORT {
                        let key = ShortKey::new(text, start, len, tag);
                        assert!(key.is(key) && !key.is(ShortKey::EMPTY));
                        vec![key.low, key.high]
                    } else {
                        long_key(text, start, len, tag).to_vec()
                    };
                    let piece = (&text[start..start + len], tag);
                    assert_eq!(*seen.entry(key).or_insert(piece), piece);
                }
            }
        }
    }
}
