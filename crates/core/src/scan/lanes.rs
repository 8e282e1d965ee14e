//! Sixty-four bytes compared at once: what block classification needs, and the conversion from bits back to
//! positions.
//!
//! One small trait: AVX-512, AVX2 and NEON where the CPU has them, and eight 64-bit words elsewhere. The result is
//! always a `u64` with bit `i` for byte `i`.

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
    /// change too.
    fn unpack(proof: Self::Proof, bits: u64, base: u32, places: &mut [u32; 64]);
}

/// Eight at a time without checking, as the number of bits is hard to predict.
#[inline(always)]
fn unpack_by_bit(mut bits: u64, base: u32, places: &mut [u32; 64]) {
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

/// Eight bytes in each of eight words; works everywhere.
#[derive(Clone, Copy)]
pub struct Portable([u64; 8]);

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Bit 7 of each byte of each word, gathered.
#[inline(always)]
fn gather(words: [u64; 8]) -> u64 {
    let mut mask = 0;
    for (i, word) in words.into_iter().enumerate() {
        let byte = ((word & TOPS) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= byte << (8 * i);
    }
    mask
}

impl Lanes for Portable {
    type Proof = ();

    #[inline(always)]
    fn load((): (), bytes: &[u8; 64]) -> Self {
        Self(std::array::from_fn(|i| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * i..8 * i + 8]);
            u64::from_le_bytes(word)
        }))
    }

    #[inline(always)]
    fn within(self, low: u8, high: u8) -> u64 {
        // Seven-bit additions carry into bit 7 from `low` on, and from `high + 1` on.
        let half = if low < 128 { TOPS } else { 0 };
        let from = ONES * u64::from(128 - (low & 127));
        let beyond = ONES * u64::from(127 - (high & 127));
        gather(self.0.map(|word| {
            let seven = word & !TOPS;
            (seven + from) & !(seven + beyond) & (word ^ half)
        }))
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        self.within(byte, byte)
    }

    #[inline(always)]
    fn high(self) -> u64 {
        gather(self.0)
    }

    #[inline(always)]
    fn letters(self) -> u64 {
        Self(self.0.map(|word| word | (ONES * 0x20))).within(b'a', b'z')
    }

    #[inline(always)]
    fn unpack((): (), bits: u64, base: u32, places: &mut [u32; 64]) {
        unpack_by_bit(bits, base, places);
    }
}
