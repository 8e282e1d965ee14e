//! Two AVX2 registers.

use super::Lanes;
use crate::cpu::Avx2;
use std::arch::x86_64::{
    __m256i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
    _mm256_or_si256, _mm256_set1_epi8, _mm256_sub_epi8,
};

/// Built from a proof that the CPU has AVX2, so a value is itself such a proof.
#[derive(Clone, Copy)]
pub struct Avx2Lanes(__m256i, __m256i);

/// Hides where a mask came from. LLVM treats a mask as a vector of bits, and moved it back to vector registers bit by
/// bit to combine it with another: 5x slower than the scalar `|`.
#[inline(always)]
fn opaque(mut mask: u32) -> u32 {
    // SAFETY: no instruction at all; the register keeps its value.
    unsafe {
        std::arch::asm!("/* {0:e} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags));
    }
    mask
}

impl Avx2Lanes {
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

impl Lanes for Avx2Lanes {
    type Proof = Avx2;

    #[inline(always)]
    fn load(_: Avx2, bytes: &[u8; 64]) -> Self {
        let start = bytes.as_ptr();
        // SAFETY: the proof; both halves lie inside the 64 bytes, and the loads need no alignment.
        unsafe { Self(_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(32).cast())) }
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
