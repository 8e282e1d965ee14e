//! Which instructions the windows are scanned with, chosen once when a scanner is made.

use super::lanes::Portable;
use super::window::{scan, Family, Starts};

/// A way to find the pieces of a family. All give the same pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The matcher alone, piece by piece: the definition that the others are tested against.
    Plain,
    /// Blocks of 64 bytes in 64-bit words, on any CPU.
    Portable,
    /// Blocks in AVX2 registers.
    Avx2,
    /// Blocks in NEON registers.
    Neon,
}

impl Path {
    /// The fastest path of this CPU.
    pub fn detect() -> Self {
        [Self::Avx2, Self::Neon]
            .into_iter()
            .find(|path| path.is_here())
            .unwrap_or(Self::Portable)
    }

    /// Whether this CPU has the path.
    pub fn is_here(self) -> bool {
        match self {
            Self::Plain | Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                std::is_x86_feature_detected!("avx2")
                    && std::is_x86_feature_detected!("bmi1")
                    && std::is_x86_feature_detected!("bmi2")
                    && std::is_x86_feature_detected!("lzcnt")
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

    /// Scans one window; see [`scan`]. The plain path has none, and gives 0.
    pub(super) fn window<F: Family>(
        self,
        family: F,
        text: &[u8],
        base: usize,
        starts: &mut Starts,
    ) -> usize {
        match self {
            Self::Plain => 0,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a scanner has this path only where `is_here` found its instructions.
            Self::Avx2 => unsafe { scan_avx2(family, text, base, starts) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: a scanner has this path only where `is_here` found its instructions.
            Self::Neon => unsafe { scan_neon(family, text, base, starts) },
            _ => scan::<F, Portable>(family, text, base, starts),
        }
    }
}

/// # Safety
/// The CPU must have AVX2, BMI and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn scan_avx2<F: Family>(family: F, text: &[u8], base: usize, starts: &mut Starts) -> usize {
    scan::<F, super::lanes::avx2::Avx2>(family, text, base, starts)
}

/// # Safety
/// The CPU must have NEON.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn scan_neon<F: Family>(family: F, text: &[u8], base: usize, starts: &mut Starts) -> usize {
    scan::<F, super::lanes::neon::Neon>(family, text, base, starts)
}
