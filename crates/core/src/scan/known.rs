//! The patterns that have a hand-written scanner: the single table of their names, and how they are recognised.
//!
//! A new family is a file with its flags, its canonical steps, its known spellings and its scanner, and a row here.

use std::fmt::Debug;
use std::sync::Arc;

use super::cl100k::{self, Cl100k};
use super::deepseek::{self, DeepSeek};
use super::gpt2::{self, Gpt2};
use super::o200k::{self, O200k};
use super::path::Path;
use super::pieces::Pieces;
use super::spec::Step;

/// A hand-written scanner with its flags.
pub trait Known: Debug + Send + Sync {
    /// The chain of steps that the scanner implements. The patterns are canonical and mean the same in every dialect:
    /// they are what is saved, and what the scanner is tested against.
    fn steps(&self) -> Vec<Step>;

    /// Writes the ends of the next pieces and returns their number.
    fn fill(&self, path: Path, pieces: &mut Pieces, text: &[u8], ends: &mut [u32]) -> usize;
}

/// A row of the table.
pub struct Family {
    /// The name that `name()` returns.
    pub name: &'static str,
    /// Models with exactly the same pattern.
    pub aliases: &'static [&'static str],
    make: fn() -> Arc<dyn Known>,
}

impl Family {
    /// Its scanner.
    pub fn scanner(&self) -> Arc<dyn Known> {
        (self.make)()
    }
}

const CL100K: Cl100k = Cl100k {
    digits: 3,
    marks: false,
    tail: false,
};
const QWEN2: Cl100k = Cl100k {
    digits: 1,
    ..CL100K
};
const O200K: O200k = O200k {
    contractions: true,
    digits: 3,
    slash: true,
    han: false,
};

/// Every family, and every name that `pattern=` accepts.
#[rustfmt::skip] // one row a line
pub const FAMILIES: &[Family] = &[
    Family { name: "gpt2", aliases: &["r50k", "p50k"], make: || Arc::new(Gpt2 { digits: false }) },
    Family { name: "starcoder", aliases: &["command-r"], make: || Arc::new(Gpt2 { digits: true }) },
    Family { name: "cl100k", aliases: &["llama3", "olmo2"], make: || Arc::new(CL100K) },
    Family { name: "cl100k-tiktoken", aliases: &[], make: || Arc::new(Cl100k { tail: true, ..CL100K }) },
    Family { name: "qwen2", aliases: &["qwen3"], make: || Arc::new(QWEN2) },
    Family { name: "qwen3.5", aliases: &[], make: || Arc::new(Cl100k { marks: true, ..QWEN2 }) },
    Family { name: "o200k", aliases: &["llama4"], make: || Arc::new(O200K) },
    Family { name: "tekken", aliases: &[], make: || Arc::new(O200k { contractions: false, digits: 1, ..O200K }) },
    Family { name: "kimi-k2", aliases: &[], make: || Arc::new(O200k { slash: false, han: true, ..O200K }) },
    Family { name: "deepseek-v3", aliases: &[], make: || Arc::new(DeepSeek) },
];

/// Accepts a chain of steps that is one of its known spellings. Anything unexpected means "not known", never
/// "nearly".
type Recogniser = fn(&[Step]) -> Option<Arc<dyn Known>>;

const RECOGNISERS: &[Recogniser] = &[
    gpt2::recognise,
    cl100k::recognise,
    o200k::recognise,
    deepseek::recognise,
];

/// The scanner of a chain of steps.
pub fn recognise(steps: &[Step]) -> Option<Arc<dyn Known>> {
    RECOGNISERS.iter().find_map(|known| known(steps))
}

/// The family of a name or alias.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES
        .iter()
        .find(|family| family.name == name || family.aliases.contains(&name))
}

/// All names and aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES
        .iter()
        .flat_map(|family| std::iter::once(family.name).chain(family.aliases.iter().copied()))
}

/// The name closest to `wrong` by number of edits; the first if several tie.
pub fn nearest(wrong: &str) -> &'static str {
    names()
        .min_by_key(|name| distance(name.as_bytes(), wrong.as_bytes()))
        .unwrap_or(FAMILIES[0].name)
}

/// Levenshtein distance, with swapping two neighbours as one edit.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect(), Vec::new()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut least = (rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]))
                .min(rows[1][j] + 1)
                .min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            row.push(least);
        }
        rows.rotate_left(1);
        rows[1] = row;
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{nearest, FAMILIES};
    use crate::scan::ScanSpec;

    #[test]
    fn a_canonical_chain_is_recognised_as_its_own_family() {
        for family in FAMILIES {
            let spec = ScanSpec::from_steps(family.scanner().steps());
            assert!(spec.is_known(), "{}", family.name);
            assert_eq!(spec.name(), family.name);
        }
    }

    #[test]
    fn a_slip_of_the_finger_finds_the_name() {
        assert_eq!(nearest("gtp2"), "gpt2");
        assert_eq!(nearest("qwen25"), "qwen2");
        assert_eq!(nearest("deepseek"), "deepseek-v3");
        assert_eq!(nearest("o200k_base"), "o200k");
    }
}
