//! Which instructions loops are run with: found out once, for the whole process.
//!
//! A value is the proof. [`Avx2`], [`Avx512`] and [`Neon`] can only be created here, after the CPU was checked, so code that
//! holds one may call code that was compiled for it. `TOKENMILL_CPU` names another set than the best, for
//! tests and measurements; every set gives the same results.

use std::sync::OnceLock;

/// The variable that names a set.
pub const VARIABLE: &str = "TOKENMILL_CPU";

/// This CPU has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

/// This CPU has AVX-512 F, BW and VBMI2, and all that [`Avx2`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(Avx2);

/// This CPU has NEON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

/// A set of instructions that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// What every CPU of the architecture has.
    Portable,
    /// Vectors of 32 bytes.
    Avx2(Avx2),
    /// Vectors of 64 bytes.
    Avx512(Avx512),
    /// Vectors of 16 bytes.
    Neon(Neon),
}

/// The set in use, and the warning if `TOKENMILL_CPU` cannot be honoured.
#[derive(Debug)]
struct Chosen {
    cpu: Cpu,
    refusal: Option<String>,
}

static CHOSEN: OnceLock<Chosen> = OnceLock::new();

fn chosen() -> &'static Chosen {
    CHOSEN.get_or_init(|| choose(std::env::var(VARIABLE).ok().as_deref()))
}

fn choose(requested: Option<&str>) -> Chosen {
    let here = Cpu::all_here();
    let cpu = here.last().copied().unwrap_or(Cpu::Portable);
    let requested = requested.filter(|requested| !requested.is_empty());
    let granted = requested
        .map_or(Some(cpu), |requested| here.iter().copied().find(|cpu| cpu.name() == requested));
    let refusal = || {
        let names: Vec<_> = here.iter().map(|cpu| cpu.name()).collect();
        format!(
            "{VARIABLE}={:?} is not a set of instructions that this CPU has: using {}; choose one of {}",
            requested.unwrap_or_default(),
            cpu.name(),
            names.join(", ")
        )
    };
    Chosen { cpu: granted.unwrap_or(cpu), refusal: granted.is_none().then(refusal) }
}

impl Cpu {
    /// Returns the set in use: the best, or the one that the environment names.
    #[inline]
    pub fn get() -> Self {
        chosen().cpu
    }

    /// Returns what to tell the user if the environment names a set that is unknown or not here.
    pub fn refusal() -> Option<&'static str> {
        chosen().refusal.as_deref()
    }

    /// Returns all sets that this CPU has, the best one last.
    pub fn all_here() -> Vec<Self> {
        let mut here = vec![Self::Portable];
        here.extend(avx2().map(Self::Avx2));
        here.extend(avx512().map(Self::Avx512));
        here.extend(neon().map(Self::Neon));
        here
    }

    /// As the environment names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2(_) => "avx2",
            Self::Avx512(_) => "avx512",
            Self::Neon(_) => "neon",
        }
    }

    /// Returns the features that it is made of.
    pub const fn features(self) -> &'static [&'static str] {
        match self {
            Self::Portable => &[],
            Self::Avx2(_) => &["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"],
            Self::Avx512(_) => {
                &["avx2", "bmi1", "bmi2", "lzcnt", "popcnt", "avx512f", "avx512bw", "avx512vbmi2"]
            }
            Self::Neon(_) => &["neon"],
        }
    }

    /// Returns the proof of AVX2, which AVX-512 has too.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    #[inline]
    pub(crate) fn avx2(self) -> Option<Avx2> {
        match self {
            Self::Avx2(avx2) | Self::Avx512(Avx512(avx2)) => Some(avx2),
            _ => None,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Avx2> {
    let is_here = std::is_x86_feature_detected!("avx2")
        && std::is_x86_feature_detected!("bmi1")
        && std::is_x86_feature_detected!("bmi2")
        && std::is_x86_feature_detected!("lzcnt")
        && std::is_x86_feature_detected!("popcnt");
    is_here.then_some(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
fn avx512() -> Option<Avx512> {
    let is_here = std::is_x86_feature_detected!("avx512f")
        && std::is_x86_feature_detected!("avx512bw")
        && std::is_x86_feature_detected!("avx512vbmi2");
    avx2().filter(|_| is_here).map(Avx512)
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2() -> Option<Avx2> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn avx512() -> Option<Avx512> {
    None
}

#[cfg(target_arch = "aarch64")]
fn neon() -> Option<Neon> {
    std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
}

#[cfg(not(target_arch = "aarch64"))]
fn neon() -> Option<Neon> {
    None
}

#[cfg(test)]
mod tests {
    use super::{choose, Cpu};

    #[test]
    fn a_requested_is_granted_or_answered() {
        let here = Cpu::all_here();
        for cpu in &here {
            let chosen = choose(Some(cpu.name()));
            assert_eq!((chosen.cpu, chosen.refusal), (*cpu, None));
        }
        for requested in ["avx1024", "AVX2", "neon,avx2", " "] {
            let chosen = choose(Some(requested));
            assert_eq!(Some(&chosen.cpu), here.last());
            assert!(chosen.refusal.is_some_and(|text| text.contains(requested)));
        }
        for none in [None, Some("")] {
            assert!(choose(none).refusal.is_none());
        }
    }
}
