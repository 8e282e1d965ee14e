//! Which instructions the windows are scanned with, chosen once when a scanner is made.

use super::lanes::Portable;
use super::pieces::Pieces;
use super::window::Family;

/// A way to find the pieces of a family. All give the same pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The matcher alone, piece by piece: the definition that the others are tested against.
    Plain,
    /// Blocks of 64 bytes in 64-bit words, on any CPU.
    Portable,
    /// Blocks in AVX2 registers.
    Avx2,
    /// Blocks in AVX-512 registers.
    Avx512,
    /// Blocks in NEON registers.
    Neon,
}

impl Path {
    /// The fastest path of this CPU.
    pub fn detect() -> Self {
        [Self::Avx512, Self::Avx2, Self::Neon]
            .into_iter()
            .find(|path| path.is_here())
            .unwrap_or(Self::Portable)
    }

    /// Whether this CPU has the path.
    pub fn is_here(self) -> bool {
        match self {
            Self::Plain | Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => super::lanes::avx512::is_here() && Self::Avx2.is_here(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                std::is_x86_feature_detected!("avx2")
                    && std::is_x86_feature_detected!("bmi1")
                    && std::is_x86_feature_detected!("bmi2")
                    && std::is_x86_feature_detected!("lzcnt")
                    && std::is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    pub(super) fn or_portable(self) -> Self {
        if self.is_here() {
            self
        } else {
            Self::Portable
        }
    }

    /// Writes the next ends of a family's pieces and gives their number.
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
            // SAFETY: a scanner has this path only where `is_here` found its instructions.
            Self::Avx2 => unsafe { fill_avx2(family, pieces, text, ends) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a scanner has this path only where `is_here` found its instructions.
            Self::Avx512 => unsafe { fill_avx512(family, pieces, text, ends) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: a scanner has this path only where `is_here` found its instructions.
            Self::Neon => unsafe { fill_neon(family, pieces, text, ends) },
            _ => pieces.fill::<F, Portable>(family, text, ends),
        }
    }
}

/// # Safety
/// The CPU must have AVX2, BMI, LZCNT and POPCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn fill_avx2<F: Family>(
    family: F,
    pieces: &mut Pieces,
    text: &[u8],
    ends: &mut [u32],
) -> usize {
    pieces.fill::<F, super::lanes::avx2::Avx2>(family, text, ends)
}

/// # Safety
/// The CPU must have AVX-512 with BW and VBMI2, and all that [`fill_avx2`] needs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn fill_avx512<F: Family>(
    family: F,
    pieces: &mut Pieces,
    text: &[u8],
    ends: &mut [u32],
) -> usize {
    pieces.fill::<F, super::lanes::avx512::Avx512>(family, text, ends)
}

/// # Safety
/// The CPU must have NEON.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn fill_neon<F: Family>(
    family: F,
    pieces: &mut Pieces,
    text: &[u8],
    ends: &mut [u32],
) -> usize {
    pieces.fill::<F, super::lanes::neon::Neon>(family, text, ends)
}
