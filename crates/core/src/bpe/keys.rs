//! Pieces packed into integers, so that one comparison settles whether two are equal.

use super::hash::mix;

/// The longest piece of a short key: one byte of its sixteen holds the length.
pub(crate) const SHORT: usize = 15;
/// The longest piece of a long key.
pub(crate) const LONG: usize = 31;
/// Bytes of a short key's first word.
const HEAD: usize = 7;
/// Where the length is in that word.
const LEN_SHIFT: u32 = 56;
/// Set in the length of pieces that need the second word.
const SECOND_WORD: u32 = LEN_SHIFT + 3;

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// A piece of 1 to [`SHORT`] bytes: seven bytes and the length (with a tag), then the eight others.
///
/// The halves are kept apart because most pieces need only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortKey {
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

impl ShortKey {
    /// The key of no piece, for those that are too long: no slot holds it.
    pub(crate) const NONE: Self = Self {
        head: 1 << 63,
        tail: 0,
    };

    /// The key of `text[start..start + len]`; `tag` has bits from 0x10 to 0x40.
    #[inline(always)]
    pub(crate) fn new(text: &[u8], start: usize, len: usize, tag: u8) -> Self {
        debug_assert!((1..=SHORT).contains(&len));
        let (head, tail) = match text.get(start..start + 16) {
            Some(bytes) => (word(&bytes[..8]), word(&bytes[HEAD..HEAD + 8])),
            None => words_at_end(&text[start..start + len]),
        };
        let (head_mask, tail_mask) = MASKS[len];
        Self {
            head: (head & head_mask) | (u64::from(len as u8 | tag) << LEN_SHIFT),
            tail: tail & tail_mask,
        }
    }

    /// 1 if the piece has more bytes than the first word holds, else 0.
    #[inline(always)]
    pub(crate) fn is_wide(self) -> usize {
        (self.head >> SECOND_WORD) as usize & 1
    }

    /// A hash whose upper bits are good: one multiplication, as this is done for every piece.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        (self.head ^ self.tail.rotate_left(29)).wrapping_mul(MULTIPLIER)
    }
}

/// Which bytes of the two words belong to a piece, by its length.
static MASKS: [(u64, u64); 16] = {
    let mut masks = [(0, 0); 16];
    let mut len = 1;
    while len < 16 {
        let head = if len < HEAD { len } else { HEAD };
        let tail = len - head;
        masks[len].0 = u64::MAX >> (64 - 8 * head);
        masks[len].1 = if tail == 0 {
            0
        } else {
            u64::MAX >> (64 - 8 * tail)
        };
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

/// Both words of a piece at the end of its text, where sixteen bytes cannot be read.
#[cold]
fn words_at_end(piece: &[u8]) -> (u64, u64) {
    let mut buffer = [0; 16];
    buffer[..piece.len()].copy_from_slice(piece);
    (word(&buffer[..8]), word(&buffer[HEAD..HEAD + 8]))
}

/// The key of a piece of 1 to [`LONG`] bytes. That of a short piece leaves the last word zero, where a long
/// one has its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u64; 4]);

impl Key {
    /// The key of no piece.
    pub(crate) const NONE: Self = Self([0; 4]);

    #[inline(always)]
    pub(crate) fn new(text: &[u8], start: usize, len: usize, tag: u8) -> Self {
        if len <= SHORT {
            let ShortKey { head, tail } = ShortKey::new(text, start, len, tag);
            return Self([head, tail, 0, 0]);
        }
        Self(long_key(text, start, len, tag))
    }

    /// The same key as a short or as a long one.
    #[inline(always)]
    pub(crate) fn by_length(self) -> Result<ShortKey, [u64; 4]> {
        match self.0 {
            [head, tail, _, 0] => Ok(ShortKey { head, tail }),
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
    // The last sixteen bytes overlap the first: shifted down, they need no mask and no byte beyond.
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
                        assert_eq!(key.is_wide(), usize::from(len > 7));
                        vec![key.head, key.tail]
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
