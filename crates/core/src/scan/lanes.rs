//! Sixty-four bytes compared at once: the three operations that block classification needs.
//!
//! One small trait, three implementations: AVX2 and NEON where the CPU has them, and eight 64-bit
//! words elsewhere. The answer is always a `u64` with bit `i` for byte `i`.

/// Sixty-four bytes of text.
pub trait Lanes: Copy {
    /// Loads a block.
    ///
    /// # Safety
    /// The CPU must have the instructions of the implementation.
    unsafe fn load(bytes: &[u8; 64]) -> Self;

    /// Which bytes are in `low..=high`. Both ends must be ASCII, or neither.
    fn within(self, low: u8, high: u8) -> u64;

    /// Which bytes equal `byte`.
    fn equal(self, byte: u8) -> u64;

    /// Which bytes are not ASCII.
    fn high(self) -> u64;

    /// Which bytes are ASCII letters.
    fn letters(self) -> u64;
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
    #[inline(always)]
    unsafe fn load(bytes: &[u8; 64]) -> Self {
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
}

/// Two AVX2 registers.
#[cfg(target_arch = "x86_64")]
pub mod avx2 {
    use super::Lanes;
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
        _mm256_or_si256, _mm256_set1_epi8, _mm256_sub_epi8,
    };

    /// A value is proof that the CPU has AVX2: `load`, which is unsafe, is the only way to one.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256i, __m256i);

    /// Hides where a mask came from. LLVM takes a mask for a vector of bits, and moved it back to
    /// vector registers bit by bit to combine it with another: 5x slower than the scalar `|`.
    #[inline(always)]
    fn opaque(mut mask: u32) -> u32 {
        // SAFETY: no instruction at all; the register keeps its value.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags));
        }
        mask
    }

    impl Avx2 {
        #[inline(always)]
        fn mask(self, test: impl Fn(__m256i) -> __m256i) -> u64 {
            // SAFETY: a value of this type exists only where AVX2 does.
            unsafe {
                let low = opaque(_mm256_movemask_epi8(test(self.0)) as u32);
                let high = opaque(_mm256_movemask_epi8(test(self.1)) as u32);
                u64::from(low) | u64::from(high) << 32
            }
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        unsafe fn load(bytes: &[u8; 64]) -> Self {
            let start = bytes.as_ptr();
            // SAFETY: both halves lie inside the 64 bytes, and the loads need no alignment.
            unsafe {
                Self(
                    _mm256_loadu_si256(start.cast()),
                    _mm256_loadu_si256(start.add(32).cast()),
                )
            }
        }

        #[inline(always)]
        fn within(self, low: u8, high: u8) -> u64 {
            // SAFETY: a value of this type exists only where AVX2 does.
            self.mask(|v| unsafe {
                let moved = _mm256_sub_epi8(v, _mm256_set1_epi8(low as i8));
                let width = _mm256_set1_epi8((high - low) as i8);
                _mm256_cmpeq_epi8(_mm256_min_epu8(moved, width), moved)
            })
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            // SAFETY: a value of this type exists only where AVX2 does.
            self.mask(|v| unsafe { _mm256_cmpeq_epi8(v, _mm256_set1_epi8(byte as i8)) })
        }

        #[inline(always)]
        fn high(self) -> u64 {
            self.mask(|v| v)
        }

        #[inline(always)]
        fn letters(self) -> u64 {
            // SAFETY: a value of this type exists only where AVX2 does.
            let fold = |v| unsafe { _mm256_or_si256(v, _mm256_set1_epi8(0x20)) };
            Self(fold(self.0), fold(self.1)).within(b'a', b'z')
        }
    }
}

/// Four NEON registers.
#[cfg(target_arch = "aarch64")]
pub mod neon {
    use super::Lanes;
    use std::arch::aarch64::{
        uint8x16_t, vaddv_u8, vandq_u8, vceqq_u8, vcgeq_u8, vcleq_u8, vdupq_n_u8, vget_high_u8,
        vget_low_u8, vld1q_u8, vorrq_u8,
    };

    /// A value is proof that the CPU has NEON: `load`, which is unsafe, is the only way to one.
    #[derive(Clone, Copy)]
    pub struct Neon([uint8x16_t; 4]);

    const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

    impl Neon {
        #[inline(always)]
        fn mask(self, test: impl Fn(uint8x16_t) -> uint8x16_t) -> u64 {
            let mut mask = 0;
            for (i, lane) in self.0.into_iter().enumerate() {
                // SAFETY: a value of this type exists only where NEON does; `PLACES` has 16 bytes.
                let pair = unsafe {
                    let bits = vandq_u8(test(lane), vld1q_u8(PLACES.as_ptr()));
                    u64::from(vaddv_u8(vget_low_u8(bits)))
                        | u64::from(vaddv_u8(vget_high_u8(bits))) << 8
                };
                mask |= pair << (16 * i);
            }
            mask
        }
    }

    impl Lanes for Neon {
        #[inline(always)]
        unsafe fn load(bytes: &[u8; 64]) -> Self {
            let start = bytes.as_ptr();
            // SAFETY: the four quarters lie inside the 64 bytes.
            unsafe { Self([0, 16, 32, 48].map(|offset| vld1q_u8(start.add(offset)))) }
        }

        #[inline(always)]
        fn within(self, low: u8, high: u8) -> u64 {
            // SAFETY: a value of this type exists only where NEON does.
            self.mask(|v| unsafe {
                vandq_u8(vcgeq_u8(v, vdupq_n_u8(low)), vcleq_u8(v, vdupq_n_u8(high)))
            })
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            // SAFETY: a value of this type exists only where NEON does.
            self.mask(|v| unsafe { vceqq_u8(v, vdupq_n_u8(byte)) })
        }

        #[inline(always)]
        fn high(self) -> u64 {
            self.within(0x80, 0xFF)
        }

        #[inline(always)]
        fn letters(self) -> u64 {
            // SAFETY: a value of this type exists only where NEON does.
            Self(self.0.map(|v| unsafe { vorrq_u8(v, vdupq_n_u8(0x20)) })).within(b'a', b'z')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lanes, Portable};

    fn check<L: Lanes>() {
        let (mut state, mut bytes) = (1u32, [0u8; 64]);
        for _ in 0..2_000 {
            for byte in &mut bytes {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
            // SAFETY: the caller has checked the CPU.
            let lanes = unsafe { L::load(&bytes) };
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
        }
    }

    #[test]
    fn portable_lanes_compare_like_bytes() {
        check::<Portable>();
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn avx2_lanes_compare_like_bytes() {
        if std::is_x86_feature_detected!("avx2") {
            check::<super::avx2::Avx2>();
        }
    }

    #[test]
    #[cfg(target_arch = "aarch64")]
    fn neon_lanes_compare_like_bytes() {
        check::<super::neon::Neon>();
    }
}
