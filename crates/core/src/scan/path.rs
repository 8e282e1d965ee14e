//! The ways to find pieces. All give the same.

use super::pieces::Pieces;
use super::window::Family;
use crate::cpu::Cpu;

/// How a scanner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The regex engine, always: the definition that the others are tested against.
    Regex,
    /// The automaton where the pattern has one.
    Plain,
    /// Blocks of 64 bytes, with these instructions, where the pattern is of a family.
    Blocks(Cpu),
}

impl Path {
    /// Writes the ends of a family's next pieces and returns their number.
    pub(super) fn fill<F: Family>(
        self,
        family: F,
        pieces: &mut Pieces<'_>,
        ends: &mut [u32],
    ) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the proof shows that the CPU has these instructions.
            Self::Blocks(Cpu::Avx2(proof)) => unsafe { fill_avx2(proof, family, pieces, ends) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Blocks(Cpu::Avx512(proof)) => unsafe { fill_avx512(proof, family, pieces, ends) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Self::Blocks(Cpu::Neon(proof)) => unsafe { fill_neon(proof, family, pieces, ends) },
            Self::Blocks(_) | Self::Regex | Self::Plain => pieces.fill_plain(ends, |_, _| {}),
        }
    }
}

/// Compiles [`Pieces::fill`] for a set of instructions.
#[allow(unused_macros)]
macro_rules! fill_with {
    ($name:ident, $features:literal, $proof:ty, $lanes:ty) => {
        #[target_feature(enable = $features)]
        fn $name<F: Family>(
            proof: $proof,
            family: F,
            pieces: &mut Pieces<'_>,
            ends: &mut [u32],
        ) -> usize {
            pieces.fill::<F, $lanes>(family, proof, ends)
        }
    };
}

#[cfg(target_arch = "x86_64")]
fill_with!(
    fill_avx2,
    "avx2,bmi1,bmi2,lzcnt,popcnt",
    crate::cpu::Avx2,
    super::lanes::avx2::Avx2Lanes
);
#[cfg(target_arch = "x86_64")]
fill_with!(
    fill_avx512,
    "avx512f,avx512bw,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt",
    crate::cpu::Avx512,
    super::lanes::avx512::Avx512Lanes
);
#[cfg(target_arch = "aarch64")]
fill_with!(fill_neon, "neon", crate::cpu::Neon, super::lanes::neon::NeonLanes);
