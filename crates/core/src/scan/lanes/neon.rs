//! Four NEON registers.

use super::Lanes;
use crate::cpu::Neon;
use std::arch::aarch64::{
    uint8x16_t, vaddv_u8, vandq_u8, vceqq_u8, vcgeq_u8, vcleq_u8, vdupq_n_u8, vget_high_u8,
    vget_low_u8, vld1q_u8, vorrq_u8,
};

/// Built from a proof that the CPU has NEON, so a value is itself such a proof.
#[derive(Clone, Copy)]
pub struct NeonLanes([uint8x16_t; 4]);

const PLACES: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl NeonLanes {
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

impl Lanes for NeonLanes {
    type Proof = Neon;

    #[inline(always)]
    fn load(_: Neon, bytes: &[u8; 64]) -> Self {
        let start = bytes.as_ptr();
        // SAFETY: the proof; the four quarters lie inside the 64 bytes.
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
