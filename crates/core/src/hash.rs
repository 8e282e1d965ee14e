//! What all tables hash with; speed first, as every one compares full keys on a hit.

/// The golden ratio in 64 bits: the upper bits of a product with it spread well.
pub(crate) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// A second odd number without a pattern.
pub(crate) const SALT: u64 = 0xD6E8_FEB8_6659_FD93;

/// Returns both halves of a 128-bit product folded together: every input bit reaches every output bit.
#[inline(always)]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Folds two words into one.
#[inline(always)]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    fold(a ^ SPREAD, b ^ SALT)
}

/// Hash of a byte string of any length.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut buffer = [0; 8];
        buffer.copy_from_slice(word);
        state = mix(state, u64::from_le_bytes(buffer));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut buffer = [0; 8];
        buffer[..rest.len()].copy_from_slice(rest);
        state = mix(state, u64::from_le_bytes(buffer));
    }
    mix(state, SPREAD)
}

/// [`hash_bytes`] for maps of byte strings: every piece that is not known asks one of them.
#[derive(Default)]
pub(crate) struct BytesHasher(u64);

impl std::hash::Hasher for BytesHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    /// Lengths, which are in the hash of the bytes.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
