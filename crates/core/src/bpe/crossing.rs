//! The merges of a vocabulary that cross a boundary between two characters, from which `cuts` proves its cuts.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::tables::Tables;
use super::NONE;
use crate::hash::{hash_bytes, mix, SPREAD};

/// The groups of characters whose edges are not known: they are only cut from neighbours that no partial split
/// concerns.
pub(super) const ALL_GROUPS: u16 = 0xFFFF;

/// The canonical splits that lie on a boundary between characters, classified by which of the two characters are
/// whole.
#[derive(Default)]
pub(super) struct Crossing {
    pub(super) whole: Vec<(u32, u32)>,
    /// Splits with only part of a character on the left: (product, group), keyed by the bytes of that part.
    left_part: Parts,
    /// The same with only part of a character on the right.
    right_part: Parts,
    /// Groups of the splits with a part on one side, keyed by the whole character on the other.
    left_whole: ByCode<u8>,
    right_whole: ByCode<u8>,
}

impl Crossing {
    pub(super) fn of(tables: &Tables, from: u32) -> Self {
        let mut crossing = Self::default();
        for (product, (left, right)) in tables.splits.iter().enumerate() {
            if *left != NONE {
                crossing.add(product as u32, tables.bytes_of(*left), tables.bytes_of(*right), from);
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
    pub(super) fn edges(&self, tables: &Tables, code: u32) -> u16 {
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
                right |= exposed(&self.right_part, spelled(&bytes[..at]), starts, touched_right);
            }
        }
        u16::from(left) | (u16::from(right) << 8)
    }

    /// Returns whether some split has a proper part of this character at its boundary.
    fn concerns_parts_of(&self, bytes: &[u8]) -> bool {
        (1..bytes.len()).any(|at| {
            self.left_part.contains_key(&spelled(&bytes[at..]))
                || self.right_part.contains_key(&spelled(&bytes[..at]))
        })
    }
}

/// Splits by a part of a character: (product, group).
type Parts = ByCode<Vec<(u32, u8)>>;

/// A map keyed by a character's code, or by the bytes of part of one. Seventy thousand characters are looked up when
/// a vocabulary is first used; with the standard hash and bytes as keys that took 22 ms instead of 8.
type ByCode<T> = HashMap<u32, T, BuildHasherDefault<CodeHasher>>;

/// The hash of one number.
#[derive(Default)]
struct CodeHasher(u64);

impl Hasher for CodeHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    fn write_u32(&mut self, code: u32) {
        // The upper bits are the well-mixed ones, and the map uses both ends.
        self.0 = u64::from(code).wrapping_mul(SPREAD).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns the bytes of part of a character as one number; 0, which is never a part, for anything longer.
fn spelled(part: &[u8]) -> u32 {
    let bytes = if part.len() > 4 { &[] } else { part };
    bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))
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

/// A part at the edge of a character, and the rank after which it is certain to have been absorbed: that of the worst
/// merge so far, which need not be the last (Llama 3 has tokens that rank before one of their parts).
#[derive(Clone, Copy, Default)]
struct State {
    part: u32,
    absorbed: u32,
}

impl State {
    /// Groups of the splits that find this part not yet absorbed.
    fn groups_in(self, parts: &Parts) -> u8 {
        let splits = parts.get(&self.part).into_iter().flatten();
        let open = splits.filter(|(product, _)| *product < self.absorbed);
        open.fold(0, |groups, (_, group)| groups | group)
    }
}

/// The parts at the start and at the end of a character while it merges on its own; it has at most four bytes.
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
            let best = pairs.map(|(at, pair)| (tables.pairs.get(pair[0], pair[1]), at)).min();
            let (product, at) = best.unwrap_or((NONE, 0));
            let done = product == NONE;
            worst = worst.max(product);
            let state =
                |symbol: u32| State { part: spelled(tables.bytes_of(symbol)), absorbed: worst };
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

/// Returns the last character, or `None` if only a part of it is there.
fn last_char(bytes: &[u8]) -> Option<u32> {
    let start = bytes.iter().rposition(|byte| !is_continuation(*byte))?;
    first_char(&bytes[start..])
}

/// Returns the first character, or `None` if only a part of it is there.
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
