//! The ways to find the pieces of a family. All give the same pieces.

use super::lanes::Portable;
use super::pieces::Pieces;
use super::window::Family;
use crate::cpu::Cpu;

/// How a scanner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The matcher alone, piece by piece: the definition that the others are tested against.
    Plain,
    /// Blocks of 64 bytes, with these instructions.
    Blocks(Cpu),
}

impl Path {
    /// Writes the ends of a family's next pieces and returns their number.
    pub(super) fn fill<F: Family>(
        self,
        family: F,
        pieces: &mut Pieces,
        text: &[u8],
        ends: &mut [u32],
    ) -> usize {
        match self {
            Self::Plain => pieces.fill_plain(family, text, ends),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof shows that the CPU has these instructions.
            Self::Blocks(Cpu::Avx2(proof)) => unsafe {
                x86_64::fill_avx2(proof, family, pieces, text, ends)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Blocks(Cpu::Avx512(proof)) => unsafe {
                x86_64::fill_avx512(proof, family, pieces, text, ends)
            },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Self::Blocks(Cpu::Neon(proof)) => unsafe {
                aarch64::fill_neon(proof, family, pieces, text, ends)
            },
            Self::Blocks(_) => pieces.fill::<F, Portable>(family, (), text, ends),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Family, Pieces};
    use crate::cpu::{Avx2, Avx512};
    use crate::scan::lanes::{avx2::Avx2Lanes, avx512::Avx512Lanes};

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn fill_avx2<F: Family>(
        proof: Avx2,
        family: F,
        pieces: &mut Pieces,
        text: &[u8],
        ends: &mut [u32],
    ) -> usize {
        pieces.fill::<F, Avx2Lanes>(family, proof, text, ends)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn fill_avx512<F: Family>(
        proof: Avx512,
        family: F,
        pieces: &mut Pieces,
        text: &[u8],
        ends: &mut [u32],
    ) -> usize {
        pieces.fill::<F, Avx512Lanes>(family, proof, text, ends)
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::{Family, Pieces};
    use crate::cpu::Neon;
    use crate::scan::lanes::neon::NeonLanes;

    #[target_feature(enable = "neon")]
    pub(super) fn fill_neon<F: Family>(
        proof: Neon,
        family: F,
        pieces: &mut Pieces,
        text: &[u8],
        ends: &mut [u32],
    ) -> usize {
        pieces.fill::<F, NeonLanes>(family, proof, text, ends)
    }
}
