//! Sixty-four bytes compared at once: what block classification needs, and the conversion from bits back to
//! positions.
//!
//! One small trait for AVX-512, AVX2 and NEON; without them the automaton is faster. The result is always a `u64` with
//! bit `i` for byte `i`.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "aarch64")]
pub mod neon;

/// Sixty-four bytes of text.
pub trait Lanes: Copy {
    /// The proof that the CPU has the instructions.
    type Proof: Copy;

    /// Loads a block.
    fn load(proof: Self::Proof, bytes: &[u8; 64]) -> Self;

    /// Which bytes are in `low..=high`. Both ends must be ASCII, or neither.
    fn within(self, low: u8, high: u8) -> u64;

    /// Which bytes equal `byte`.
    fn equal(self, byte: u8) -> u64;

    /// Which bytes are not ASCII.
    fn high(self) -> u64;

    /// Which bytes are ASCII letters.
    fn letters(self) -> u64;

    /// Writes `base` plus the position of each set bit, in order, to the front of `places`; the rest of `places` may
    /// change too. Eight at a time without checking, as the number of bits is hard to predict.
    #[inline(always)]
    fn unpack(_: Self::Proof, mut bits: u64, base: u32, places: &mut [u32; 64]) {
        for eight in places.chunks_exact_mut(8) {
            if bits == 0 {
                return;
            }
            for place in eight {
                *place = base.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
            }
        }
    }
}
