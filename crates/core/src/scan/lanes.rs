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

#[cfg(test)]
mod tests {
    use super::{Lanes, Portable};
    use crate::cpu::Cpu;

    fn check<L: Lanes>(proof: L::Proof) {
        let (mut state, mut bytes) = (1u32, [0u8; 64]);
        for _ in 0..2_000 {
            for byte in &mut bytes {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
            let lanes = L::load(proof, &bytes);
            let expect = |test: &dyn Fn(u8) -> bool| {
                (0..64).fold(0u64, |mask, i| mask | u64::from(test(bytes[i])) << i)
            };
            for (low, high) in [(0, 127), (9, 13), (b'0', b'9'), (0x80, 0xBF), (0xE5, 0xE9)] {
                assert_eq!(
                    lanes.within(low, high),
                    expect(&|b| (low..=high).contains(&b))
                );
            }
            for byte in [0, 10, 39, 127, 128, 0xE4, 255] {
                assert_eq!(lanes.equal(byte), expect(&|b| b == byte));
            }
            assert_eq!(lanes.high(), expect(&|b| b >= 128));
            assert_eq!(lanes.letters(), expect(&|b| b.is_ascii_alphabetic()));
            let (bits, mut places) = (expect(&|b| b > 150), [0; 64]);
            L::unpack(proof, bits, 1000, &mut places);
            let expected = (0..64).filter(|i| bits >> i & 1 == 1).map(|i| 1000 + i);
            assert!(expected.eq(places.into_iter().take(bits.count_ones() as usize)));
        }
    }

    #[test]
    fn lanes_compare_like_bytes() {
        for cpu in Cpu::all_here() {
            match cpu {
                Cpu::Portable => check::<Portable>(()),
                #[cfg(target_arch = "x86_64")]
                Cpu::Avx2(proof) => check::<super::avx2::Avx2Lanes>(proof),
                #[cfg(target_arch = "x86_64")]
                Cpu::Avx512(proof) => check::<super::avx512::Avx512Lanes>(proof),
                #[cfg(target_arch = "aarch64")]
                Cpu::Neon(proof) => check::<super::neon::NeonLanes>(proof),
                _ => unreachable!("of another architecture"),
            }
        }
    }
}
