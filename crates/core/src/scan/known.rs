//! The patterns that have a block scanner: the single table of their names, and how they are recognised.
//!
//! A new family is a file with its flags, its canonical steps and its algebra, a variant of [`Known`] and a row here.

use super::automaton::Automaton;
use super::cl100k::Cl100k;
use super::deepseek::DeepSeek;
use super::gpt2::Gpt2;
use super::o200k::O200k;
use super::path::Path;
use super::pieces::Pieces;
use super::spec::Step;

/// A family with its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// GPT-2 and its relatives.
    Gpt2(Gpt2),
    /// cl100k and its relatives.
    Cl100k(Cl100k),
    /// o200k and its relatives.
    O200k(O200k),
    /// DeepSeek-V3.
    DeepSeek(DeepSeek),
}

impl Known {
    /// The chain of steps that the scanner implements. The patterns are canonical and mean the same in every dialect:
    /// they are what is saved, and what the scanner is tested against.
    pub fn steps(self) -> Vec<Step> {
        match self {
            Self::Gpt2(flags) => flags.steps(),
            Self::Cl100k(flags) => flags.steps(),
            Self::O200k(flags) => flags.steps(),
            Self::DeepSeek(DeepSeek) => DeepSeek::steps(),
        }
    }

    /// Writes the ends of the next pieces and returns their number.
    pub(super) fn fill(self, path: Path, pieces: &mut Pieces<'_>, ends: &mut [u32]) -> usize {
        match self {
            Self::Gpt2(flags) => path.fill(flags, pieces, ends),
            Self::Cl100k(flags) => path.fill(flags, pieces, ends),
            Self::O200k(flags) => path.fill(flags, pieces, ends),
            Self::DeepSeek(flags) => path.fill(flags, pieces, ends),
        }
    }

    /// The family of a chain of steps: the only one that it can be, if their automata are equal.
    pub fn of_steps(steps: &[Step]) -> Option<Self> {
        if let Some(row) = FAMILIES.iter().find(|row| row.known.steps() == steps) {
            return Some(row.known);
        }
        let automaton = Automaton::of_pieces(steps)?;
        let known = Self::nearest(&automaton);
        let canonical = Automaton::of_pieces(&known.steps())?;
        automaton.equals(&canonical).then_some(known)
    }

    /// The flags that a few texts distinguish.
    fn nearest(automaton: &Automaton) -> Self {
        let end = |text: &str| automaton.match_end(text.as_bytes(), 0);
        let is_whole = |text: &str| end(text) == text.len();
        let digits = match end("1111111111111111") {
            16 => u8::MAX,
            length => length as u8,
        };
        if !is_whole("aB") {
            return Self::O200k(O200k {
                contractions: is_whole("a's"),
                digits,
                slash: is_whole("!\n/"),
                han: !is_whole("a中"),
            });
        }
        if !is_whole("a中") {
            return Self::DeepSeek(DeepSeek);
        }
        if is_whole("(a") {
            return Self::Cl100k(Cl100k {
                digits,
                marks: is_whole("a\u{301}"),
                tail: is_whole("\n "),
            });
        }
        Self::Gpt2(Gpt2 { digits: digits == 1 })
    }
}

/// A row of the table.
pub struct Family {
    /// The name that `name()` returns.
    pub name: &'static str,
    /// Models with exactly the same pattern.
    pub aliases: &'static [&'static str],
    /// Its scanner.
    pub known: Known,
}

const CL100K: Cl100k = Cl100k { digits: 3, marks: false, tail: false };
const QWEN2: Cl100k = Cl100k { digits: 1, ..CL100K };
const O200K: O200k = O200k { contractions: true, digits: 3, slash: true, han: false };

/// Every family, and every name that `pattern=` accepts.
#[rustfmt::skip] // one row a line
pub const FAMILIES: &[Family] = &[
    Family { name: "gpt2", aliases: &["r50k", "p50k"], known: Known::Gpt2(Gpt2 { digits: false }) },
    Family { name: "starcoder", aliases: &["command-r"], known: Known::Gpt2(Gpt2 { digits: true }) },
    Family { name: "cl100k", aliases: &["llama3", "olmo2"], known: Known::Cl100k(CL100K) },
    Family { name: "cl100k-tiktoken", aliases: &[], known: Known::Cl100k(Cl100k { tail: true, ..CL100K }) },
    Family { name: "qwen2", aliases: &["qwen3"], known: Known::Cl100k(QWEN2) },
    Family { name: "qwen3.5", aliases: &[], known: Known::Cl100k(Cl100k { marks: true, ..QWEN2 }) },
    Family { name: "o200k", aliases: &["llama4"], known: Known::O200k(O200K) },
    Family { name: "tekken", aliases: &[], known: Known::O200k(O200k { contractions: false, digits: 1, ..O200K }) },
    Family { name: "kimi-k2", aliases: &[], known: Known::O200k(O200k { slash: false, han: true, ..O200K }) },
    Family { name: "deepseek-v3", aliases: &[], known: Known::DeepSeek(DeepSeek) },
];

/// The family of a name or alias.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name || family.aliases.contains(&name))
}

/// All names and aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES
        .iter()
        .flat_map(|family| std::iter::once(family.name).chain(family.aliases.iter().copied()))
}

/// The name that begins most like `wrong`; the first if several do.
pub fn nearest(wrong: &str) -> &'static str {
    let same = |(left, right): &(u8, u8)| left.eq_ignore_ascii_case(right);
    let shared = |name: &&str| name.bytes().zip(wrong.bytes()).take_while(same).count();
    let first = names().min_by_key(|name| std::cmp::Reverse(shared(name)));
    first.unwrap_or(FAMILIES[0].name)
}
