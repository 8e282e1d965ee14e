//! Where a run of text can be cut without changing its ids.
//!
//! Chinese, Japanese and Korean pieces are long and rarely come twice, but most of their neighbouring
//! characters can never end up in one token. Between two such characters a piece may be cut, and the short
//! segments repeat, so the cache finds them.
//!
//! *When is a cut between c1 and c2 exact?* When no merge ever crosses it. The first one that did would
//! join a token that ends there with one that starts there, and these two would be the canonical split
//! (l, r) of their product. So it is enough to rule out every split whose l can stand at the end of c1
//! and whose r can stand at the start of c2:
//!
//! - l ends with all of c1 and r starts with all of c2. Such pairs of characters are kept in a bit set.
//! - l or r is only a part of its character. While nothing else has touched a character, its own next merge
//!   is always there to be taken, so a product that ranks after all of its merges up to some point comes
//!   after them. The part must then be the edge of a state that is left later: made, and not yet absorbed by
//!   merges that all rank before the product. If the character's *other* edge may have been touched before,
//!   any of its parts is assumed to be possible.
//!
//! Splits with a part are few; each has one of eight group bits, and a character holds the bits of those
//! it can take part in on either side. A shared bit, like a collision in the bit set, only forgoes a cut.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::keys::LONG;
use super::symbols::Symbols;
use super::tables::Tables;
use super::NONE;
use crate::hash::{hash_bytes, mix, SPREAD};

/// Characters with edge bits of their own: the basic plane, and the block of emoji after it.
const BASIC: u32 = 0x1_0000;
const EMOJI: std::ops::Range<u32> = 0x1_F000..0x2_0000;
/// All other characters are only cut from neighbours that no partial split concerns.
const ALL_GROUPS: u16 = 0xFFFF;

/// The proof tables of one vocabulary.
pub(crate) struct Cuts {
    /// By character: groups it can be the left side of (low byte) and the right side of (high byte).
    edges: Vec<u16>,
    /// Hashed set of whole characters that some merge joins.
    joined: Vec<u64>,
    shift: u32,
    /// The same for two characters of ASCII, edges included: a bit where they stay together.
    ascii: Box<[u64; 256]>,
    /// Cuts are looked for where one of two neighbours is at least this: with symbols that are whole
    /// characters all of them are known, with bytes the pairs of ASCII are left to the cache.
    from: u32,
    /// Whether words of alphabets with two bytes to a letter are left whole.
    whole_words: bool,
}

/// What says whether two-byte letters can be told apart: those of Russian.
const LETTERS: std::ops::Range<u32> = 0x430..0x450;
/// Words are left whole where fewer than one in so many pairs of letters can be cut apart.
const RARE_CUTS: usize = 2;

impl Cuts {
    /// `None` where the argument above does not hold for this vocabulary.
    pub(crate) fn new(tables: &Tables) -> Option<Self> {
        let from = if matches!(tables.symbols, Symbols::Bytes(_)) {
            0x80
        } else {
            0
        };
        let crossing = Crossing::of(tables, from);
        if matches!(tables.symbols, Symbols::Chars(_)) && !tables.symbols.is_local() {
            return None;
        }
        let bits = (crossing.whole.len() * 32)
            .next_power_of_two()
            .clamp(1 << 14, 1 << 23);
        let mut cuts = Self {
            edges: Vec::new(),
            joined: vec![0; bits / 64],
            shift: 64 - bits.trailing_zeros(),
            ascii: Box::new([u64::MAX; 256]),
            from,
            whole_words: false,
        };
        for (left, right) in &crossing.whole {
            let bit = cuts.bit_of(*left, *right);
            cuts.joined[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        let characters = (0..BASIC).chain(EMOJI);
        cuts.edges = characters
            .map(|code| crossing.edges(tables, code))
            .collect();
        for token in tables.whole.keys() {
            cuts.keep_whole(token);
        }
        if from == 0 {
            cuts.fill_ascii();
        }
        cuts.whole_words = cuts.safe_pairs(LETTERS) * RARE_CUTS < LETTERS.len() * LETTERS.len();
        Some(cuts)
    }

    fn safe_pairs(&self, letters: std::ops::Range<u32>) -> usize {
        let at = |code| (code, self.edges_of(code));
        let pairs = letters
            .clone()
            .flat_map(|left| letters.clone().map(move |right| (left, right)));
        pairs
            .filter(|(left, right)| self.is_safe(at(*left), at(*right)))
            .count()
    }

    /// Whether a piece is not worth the walk: nothing but ASCII, or a word that the cache can hold of an alphabet
    /// (Cyrillic, Greek, Arabic) in which this vocabulary has too many merges to be cut. Words of Russian in Llama 3
    /// were walked for a fifth of the time and hardly ever cut; GPT-2, which cuts them nearly everywhere, is a third faster
    /// for it.
    #[inline(always)]
    pub(crate) fn leaves_whole(&self, piece: &[u8]) -> bool {
        let first = piece[usize::from(piece[0] < 0x80)];
        let is_word = self.whole_words && piece.len() <= LONG && matches!(first, 0xC2..0xE0);
        is_word || (self.from > 0 && piece.is_ascii())
    }

    fn fill_ascii(&mut self) {
        for at in 0..128 * 128 {
            let [left, right] = [at / 128, at % 128].map(|code| (code, self.edges_of(code)));
            if self.is_safe(left, right) {
                self.ascii[(at >> 6) as usize] &= !(1 << (at & 63));
            }
        }
    }

    /// Tokens that are only found as whole pieces must not be cut inside.
    fn keep_whole(&mut self, token: &[u8]) {
        let Ok(text) = std::str::from_utf8(token) else {
            return;
        };
        for (left, right) in text.chars().zip(text.chars().skip(1)) {
            let bit = self.bit_of(left as u32, right as u32);
            self.joined[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
    }

    #[inline(always)]
    fn bit_of(&self, left: u32, right: u32) -> u64 {
        (u64::from(left) << 32 | u64::from(right)).wrapping_mul(SPREAD) >> self.shift
    }

    /// The edge groups of a character.
    #[inline(always)]
    pub(crate) fn edges_of(&self, code: u32) -> u16 {
        let index = if code < BASIC {
            code
        } else if EMOJI.contains(&code) {
            code - EMOJI.start + BASIC
        } else {
            return ALL_GROUPS;
        };
        self.edges[index as usize]
    }

    /// Whether no merge can ever cross between two characters of ASCII; never where these are not looked at.
    #[inline(always)]
    pub(crate) fn is_safe_ascii(&self, left: u32, right: u32) -> bool {
        let at = left << 7 | right;
        (self.ascii[(at >> 6) as usize % 256] >> (at & 63)) & 1 == 0
    }

    /// Whether no merge can ever cross between two characters, given their edge groups too.
    #[inline(always)]
    pub(crate) fn is_safe(&self, left: (u32, u16), right: (u32, u16)) -> bool {
        let bit = self.bit_of(left.0, right.0);
        let joined = (self.joined[(bit >> 6) as usize] >> (bit & 63)) & 1;
        joined == 0 && (left.1 as u8) & ((right.1 >> 8) as u8) == 0
    }
}

/// The canonical splits that lie on a boundary between characters, sorted by how much of each is whole.
#[derive(Default)]
struct Crossing {
    whole: Vec<(u32, u32)>,
    /// A part of a character on the left: (product, group) by its bytes.
    left_part: Parts,
    /// A part of a character on the right.
    right_part: Parts,
    /// Groups by the whole character on the other side.
    left_whole: ByCode<u8>,
    right_whole: ByCode<u8>,
}

impl Crossing {
    fn of(tables: &Tables, from: u32) -> Self {
        let mut crossing = Self::default();
        for (product, (left, right)) in tables.splits.iter().enumerate() {
            if *left != NONE {
                crossing.add(
                    product as u32,
                    tables.bytes_of(*left),
                    tables.bytes_of(*right),
                    from,
                );
            }
        }
        crossing
    }

    fn add(&mut self, product: u32, left: &[u8], right: &[u8], from: u32) {
        let starts_inside = right.first().is_none_or(|byte| is_continuation(*byte));
        if starts_inside || (from > 0 && left.is_ascii() && right.is_ascii()) {
            return;
        }
        match (last_char(left), first_char(right)) {
            (Some(left), Some(right)) => self.whole.push((left, right)),
            (whole_left, whole_right) => {
                let group = 1 << (mix(hash_bytes(left), hash_bytes(right)) >> 61);
                match whole_left {
                    Some(code) => *self.left_whole.entry(code).or_default() |= group,
                    None => note(&mut self.left_part, left, (product, group)),
                }
                match whole_right {
                    Some(code) => *self.right_whole.entry(code).or_default() |= group,
                    None => note(&mut self.right_part, right, (product, group)),
                }
            }
        }
    }

    /// Edge groups of a character: left side in the low byte, right side in the high byte.
    fn edges(&self, tables: &Tables, code: u32) -> u16 {
        let Some(character) = char::from_u32(code) else {
            return ALL_GROUPS;
        };
        let mut left = self.left_whole.get(&code).copied().unwrap_or(0);
        let mut right = self.right_whole.get(&code).copied().unwrap_or(0);
        let mut buffer = [0; 4];
        let bytes = character.encode_utf8(&mut buffer).as_bytes();
        if self.concerns_parts_of(bytes) {
            let states = EdgeStates::of(tables, bytes);
            let [starts, ends] = [states.starts(), states.ends()];
            let touched = |parts: &Parts, states: &[State]| {
                states.iter().any(|state| state.groups_in(parts) != 0)
            };
            let touched_left = touched(&self.right_part, starts);
            let touched_right = touched(&self.left_part, ends);
            let exposed = |parts: &Parts, part: u32, states: &[State], any: bool| {
                let own = states.iter().filter(|state| state.part == part);
                let own = own.fold(0, |groups, state| groups | state.groups_in(parts));
                if any {
                    all_groups(parts, part)
                } else {
                    own
                }
            };
            for at in 1..bytes.len() {
                left |= exposed(&self.left_part, spelled(&bytes[at..]), ends, touched_left);
                right |= exposed(
                    &self.right_part,
                    spelled(&bytes[..at]),
                    starts,
                    touched_right,
                );
            }
        }
        u16::from(left) | (u16::from(right) << 8)
    }

    /// Whether some split has a proper part of this character at its boundary.
    fn concerns_parts_of(&self, bytes: &[u8]) -> bool {
        (1..bytes.len()).any(|at| {
            self.left_part.contains_key(&spelled(&bytes[at..]))
                || self.right_part.contains_key(&spelled(&bytes[..at]))
        })
    }
}

/// Splits by a part of a character: (product, group).
type Parts = ByCode<Vec<(u32, u8)>>;

/// By a character's code, or by the bytes of a part of one. Seventy thousand characters are asked about when a
/// vocabulary is first used; with the standard hash and bytes as keys that took 22 ms instead of 8.
type ByCode<T> = HashMap<u32, T, BuildHasherDefault<CodeHasher>>;

/// The hash of one number.
#[derive(Default)]
struct CodeHasher(u64);

impl Hasher for CodeHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    fn write_u32(&mut self, code: u32) {
        // The upper bits are the good ones, and the map looks at both ends.
        self.0 = u64::from(code).wrapping_mul(SPREAD).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The bytes of a part of a character as one number; 0, which no part is, for anything longer.
fn spelled(part: &[u8]) -> u32 {
    let bytes = if part.len() > 4 { &[] } else { part };
    bytes
        .iter()
        .fold(0, |code, byte| code << 8 | u32::from(*byte))
}

fn note(parts: &mut Parts, part: &[u8], split: (u32, u8)) {
    let part = spelled(part);
    if part != 0 {
        parts.entry(part).or_default().push(split);
    }
}

fn all_groups(parts: &Parts, part: u32) -> u8 {
    let splits = parts.get(&part).into_iter().flatten();
    splits.fold(0, |groups, (_, group)| groups | group)
}

/// A part at the edge of a character, and the rank after which it is certain to have been taken in: that of the
/// worst merge up to then, which need not be the last (Llama 3 has tokens that rank before a part of theirs).
#[derive(Clone, Copy, Default)]
struct State {
    part: u32,
    absorbed: u32,
}

impl State {
    /// Groups of the splits that find this part still standing.
    fn groups_in(self, parts: &Parts) -> u8 {
        let splits = parts.get(&self.part).into_iter().flatten();
        let open = splits.filter(|(product, _)| *product < self.absorbed);
        open.fold(0, |groups, (_, group)| groups | group)
    }
}

/// What stands at the start and at the end of a character while it merges alone: it has at most four bytes.
#[derive(Default)]
struct EdgeStates {
    starts: [State; 4],
    ends: [State; 4],
    counts: [usize; 2],
}

impl EdgeStates {
    fn of(tables: &Tables, bytes: &[u8]) -> Self {
        let mut symbols = Vec::with_capacity(4);
        tables.symbols.of_piece(bytes, &mut symbols);
        let mut found = Self::default();
        let mut worst = 0;
        loop {
            let pairs = symbols.windows(2).enumerate();
            let best = pairs
                .map(|(at, pair)| (tables.pairs.get(pair[0], pair[1]), at))
                .min();
            let (product, at) = best.unwrap_or((NONE, 0));
            let done = product == NONE;
            worst = worst.max(product);
            let state = |symbol: u32| State {
                part: spelled(tables.bytes_of(symbol)),
                absorbed: worst,
            };
            if done || at == 0 {
                found.starts[found.counts[0]] = state(symbols[0]);
                found.counts[0] += 1;
            }
            if done || at + 2 == symbols.len() {
                found.ends[found.counts[1]] = state(symbols[symbols.len() - 1]);
                found.counts[1] += 1;
            }
            if done {
                return found;
            }
            symbols[at] = product;
            symbols.remove(at + 1);
        }
    }

    fn starts(&self) -> &[State] {
        &self.starts[..self.counts[0]]
    }

    fn ends(&self) -> &[State] {
        &self.ends[..self.counts[1]]
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The last character, or `None` if only a part of it is there.
fn last_char(bytes: &[u8]) -> Option<u32> {
    let start = bytes.iter().rposition(|byte| !is_continuation(*byte))?;
    first_char(&bytes[start..])
}

/// The first character, or `None` if only a part of it is there.
fn first_char(bytes: &[u8]) -> Option<u32> {
    let len = match bytes.first()? {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    let text = std::str::from_utf8(bytes.get(..len)?).ok()?;
    text.chars().next().map(|character| character as u32)
}
