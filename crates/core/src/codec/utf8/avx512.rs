//! Sixteen characters at a time: four bytes for each, of which the valid ones are packed together.

use std::arch::x86_64::{
    __m512i, _mm256_loadu_si256, _mm512_cmpge_epu32_mask, _mm512_cmplt_epu32_mask,
    _mm512_cvtepi32_epi8, _mm512_cvtepu16_epi32, _mm512_cvtepu8_epi32, _mm512_loadu_si512,
    _mm512_mask_mov_epi32, _mm512_mask_xor_epi32, _mm512_maskz_compress_epi8, _mm512_or_si512,
    _mm512_set1_epi32, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_storeu_si512, _mm512_sub_epi32,
    _mm512_ternarylogic_epi32, _mm_loadu_si128, _mm_storeu_si128, _pdep_u64,
};

use super::{write_any, Unit, RUN};
use crate::cpu::Avx512;

/// A character that can be loaded with its neighbours.
pub(in crate::codec) trait Sixteen: Sized {
    /// Sixteen of them, widened.
    fn load(proof: Avx512, units: &[Self; RUN]) -> __m512i;
}

/// Like [`super::write`].
///
/// # Safety
/// As there; `proof` shows that the CPU has the instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn write<U: Unit>(
    proof: Avx512,
    units: &[U],
    mut at: *mut u8,
) -> Option<*mut u8> {
    let (runs, rest) = units.as_chunks::<RUN>();
    let mut odd = 0;
    for run in runs {
        // SAFETY: the CPU has AVX-512, and there is room for four bytes for each character of a run.
        unsafe {
            let wide = <U as Sixteen>::load(proof, run);
            let multi = _mm512_cmpge_epu32_mask(wide, _mm512_set1_epi32(0x80));
            if multi == 0 {
                _mm_storeu_si128(at.cast(), _mm512_cvtepi32_epi8(wide));
                at = at.add(RUN);
                continue;
            }
            odd |= no_scalars(wide);
            let (bytes, counts) = spread(wide, multi);
            _mm512_storeu_si512(at.cast(), _mm512_maskz_compress_epi8(counts, bytes));
            at = at.add(counts.count_ones() as usize);
        }
    }
    if odd != 0 {
        return None;
    }
    // SAFETY: the room is the caller's promise.
    unsafe { write_any(rest, at) }
}

/// Returns which characters are surrogates or beyond the last code point.
#[target_feature(enable = "avx512f")]
#[inline]
fn no_scalars(wide: __m512i) -> u16 {
    let from_surrogates = _mm512_sub_epi32(wide, _mm512_set1_epi32(0xD800));
    _mm512_cmplt_epu32_mask(from_surrogates, _mm512_set1_epi32(0x800))
        | _mm512_cmpge_epu32_mask(wide, _mm512_set1_epi32(0x11_0000))
}

/// Returns each character as the last of four bytes, and which of all bytes are valid; `multi` marks characters that are not
/// ASCII.
#[target_feature(enable = "avx512f,bmi2")]
#[inline]
fn spread(wide: __m512i, multi: u16) -> (__m512i, u64) {
    let below = |limit| _mm512_cmplt_epu32_mask(wide, _mm512_set1_epi32(limit));
    let (two, three) = (below(0x800), below(0x1_0000));
    // Six bits each in the last three bytes, the rest in the first.
    let bits = _mm512_srli_epi32::<18>(wide);
    let pick = |shifted, mask, bits| {
        _mm512_ternarylogic_epi32::<0xF8>(bits, shifted, _mm512_set1_epi32(mask))
    };
    let bits = pick(_mm512_srli_epi32::<4>(wide), 0x3F00, bits);
    let bits = pick(_mm512_slli_epi32::<10>(wide), 0x3F_0000, bits);
    let bits = pick(_mm512_slli_epi32::<24>(wide), 0x3F00_0000, bits);
    // A marker in each byte; where a character has fewer than four bytes, its first byte has a longer one.
    let marked = _mm512_or_si512(bits, _mm512_set1_epi32(0x8080_80F0_u32 as i32));
    let marked = _mm512_mask_xor_epi32(marked, three, marked, _mm512_set1_epi32(0x6000));
    let marked = _mm512_mask_xor_epi32(marked, two, marked, _mm512_set1_epi32(0x40_0000));
    let bytes = _mm512_mask_mov_epi32(marked, !multi, _mm512_slli_epi32::<24>(wide));
    let spot = |lanes: u16, byte: u32| _pdep_u64(u64::from(lanes), 0x1111_1111_1111_1111 << byte);
    let counts = spot(!three, 0) | spot(!two, 1) | spot(multi, 2) | spot(u16::MAX, 3);
    (bytes, counts)
}

impl Sixteen for u8 {
    #[inline(always)]
    fn load(_: Avx512, units: &[Self; RUN]) -> __m512i {
        // SAFETY: sixteen bytes can be read, and the proof.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(units.as_ptr().cast())) }
    }
}

impl Sixteen for u16 {
    #[inline(always)]
    fn load(_: Avx512, units: &[Self; RUN]) -> __m512i {
        // SAFETY: as above, with 32 bytes.
        unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(units.as_ptr().cast())) }
    }
}

impl Sixteen for u32 {
    #[inline(always)]
    fn load(_: Avx512, units: &[Self; RUN]) -> __m512i {
        // SAFETY: as above, with 64 bytes.
        unsafe { _mm512_loadu_si512(units.as_ptr().cast()) }
    }
}
