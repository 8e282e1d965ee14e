//! One AVX-512 register: a comparison yields its mask directly, and set bits are unpacked by one instruction.

use super::Lanes;
use crate::cpu::Avx512;
use std::arch::x86_64::{
    __m128i, __m512i, _mm512_add_epi32, _mm512_castsi512_si128, _mm512_cmpeq_epi8_mask,
    _mm512_cmple_epu8_mask, _mm512_cvtepu8_epi32, _mm512_extracti32x4_epi32, _mm512_loadu_si512,
    _mm512_maskz_compress_epi8, _mm512_movepi8_mask, _mm512_or_si512, _mm512_set1_epi32,
    _mm512_set1_epi8, _mm512_storeu_si512, _mm512_sub_epi8,
};

/// Built from a proof that the CPU has AVX-512, so a value is itself such a proof.
#[derive(Clone, Copy)]
pub struct Avx512Lanes(__m512i);

/// The numbers of the 64 lanes.
static LANES: [u8; 64] = {
    let mut lanes = [0; 64];
    let mut lane = 0;
    while lane < 64 {
        lanes[lane] = lane as u8;
        lane += 1;
    }
    lanes
};

/// Keeps a mask in a general register: the algebra that follows is slower in mask registers.
#[inline(always)]
fn opaque(mut mask: u64) -> u64 {
    // SAFETY: no instruction at all; the register keeps its value.
    unsafe {
        std::arch::asm!("/* {0:r} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags));
    }
    mask
}

impl Lanes for Avx512Lanes {
    type Proof = Avx512;

    #[inline(always)]
    fn load(_: Avx512, bytes: &[u8; 64]) -> Self {
        // SAFETY: the proof; 64 bytes are read, and the load needs no alignment.
        Self(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn within(self, low: u8, high: u8) -> u64 {
        // SAFETY: a value of this type exists only where AVX-512 does.
        opaque(unsafe {
            let moved = _mm512_sub_epi8(self.0, _mm512_set1_epi8(low as i8));
            _mm512_cmple_epu8_mask(moved, _mm512_set1_epi8((high - low) as i8))
        })
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        // SAFETY: a value of this type exists only where AVX-512 does.
        opaque(unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte as i8)) })
    }

    #[inline(always)]
    fn high(self) -> u64 {
        // SAFETY: a value of this type exists only where AVX-512 does.
        opaque(unsafe { _mm512_movepi8_mask(self.0) })
    }

    #[inline(always)]
    fn letters(self) -> u64 {
        // SAFETY: a value of this type exists only where AVX-512 does.
        Self(unsafe { _mm512_or_si512(self.0, _mm512_set1_epi8(0x20)) }).within(b'a', b'z')
    }

    #[inline(always)]
    fn unpack(_: Avx512, bits: u64, base: u32, places: &mut [u32; 64]) {
        // SAFETY: the proof; each store is one of four quarters of `places`.
        unsafe {
            let lanes = _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(LANES.as_ptr().cast()));
            let base = _mm512_set1_epi32(base as i32);
            let mut store = |quarter: usize, lanes: __m128i| {
                let sixteen = _mm512_add_epi32(base, _mm512_cvtepu8_epi32(lanes));
                _mm512_storeu_si512(places.as_mut_ptr().add(16 * quarter).cast(), sixteen);
            };
            // Sixteen pieces are the average for English; more are rare, and the last two quarters are written
            // together.
            store(0, _mm512_castsi512_si128(lanes));
            if bits.count_ones() > 16 {
                store(1, _mm512_extracti32x4_epi32::<1>(lanes));
                if bits.count_ones() > 32 {
                    store(2, _mm512_extracti32x4_epi32::<2>(lanes));
                    store(3, _mm512_extracti32x4_epi32::<3>(lanes));
                }
            }
        }
    }
}
