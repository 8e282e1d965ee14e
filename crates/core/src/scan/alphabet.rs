//! The classes of characters that a pattern distinguishes: one small number per scalar value.

use std::collections::{HashMap, HashSet};

use super::nfa::Set;

/// Code points below this are in the table; there are few texts with others.
const TABLE: usize = 0x20000;

/// A number for every character; characters with the same number are in the same sets.
#[derive(Debug)]
pub struct Alphabet {
    table: Vec<u8>,
    /// Runs of code points with the same class: end and class.
    runs: Vec<(u32, u8)>,
    /// The sets of each class, as bits.
    pub sets: Vec<u128>,
}

impl Alphabet {
    /// The classes that `sets` distinguish; None if they are too many. The last class is the edge of the text.
    pub fn new(sets: &[Set]) -> Option<Self> {
        if sets.len() > 128 {
            return None;
        }
        let (mut changes, mut edge) = (Vec::new(), 0);
        for (bit, set) in sets.iter().enumerate() {
            edge |= u128::from(set.edge) << bit;
            for range in set.chars.ranges() {
                let places = [range.start() as u32, range.end() as u32 + 1];
                changes.extend(places.map(|place| (place, 1 << bit)));
            }
        }
        changes.sort_unstable();
        changes.push((char::MAX as u32 + 1, 0));
        let (mut numbers, mut runs, mut inside) = (HashMap::new(), Vec::new(), 0u128);
        let (mut at, mut distinct) = (0, Vec::new());
        for (place, bit) in changes {
            if place > at {
                // No text has surrogates: they need no class of their own.
                let key = if at == 0xD800 { distinct[0] } else { inside };
                let number = *numbers.entry(key).or_insert_with(|| {
                    distinct.push(key);
                    distinct.len() - 1
                });
                runs.push((place, u8::try_from(number).ok()?));
                at = place;
            }
            inside ^= bit;
        }
        distinct.push(edge);
        let mut table = Vec::with_capacity(TABLE);
        for &(end, class) in &runs {
            table.resize(TABLE.min(end as usize), class);
        }
        Some(Self { table, runs, sets: distinct })
    }

    /// The class of the edge of the text.
    pub fn edge(&self) -> usize {
        self.sets.len() - 1
    }

    /// The class of a code point.
    #[inline(always)]
    pub fn class(&self, code_point: u32) -> usize {
        let far = || self.runs[self.runs.partition_point(|run| run.0 <= code_point)].1;
        let near = self.table.get(code_point as usize).copied();
        near.unwrap_or_else(far).into()
    }

    /// The classes that a character has in two alphabets, for every character and the edge.
    pub fn pairs(&self, other: &Self) -> HashSet<(usize, usize)> {
        let ends = self.runs.iter().chain(&other.runs).map(|run| run.0 - 1);
        ends.map(|last| (self.class(last), other.class(last)))
            .chain([(self.edge(), other.edge())])
            .collect()
    }

    /// A character of each class.
    pub fn samples(&self) -> Vec<char> {
        let first = |class| (0..=char::MAX as u32).find(|&point| self.class(point) == class);
        let all = (0..self.edge()).filter_map(|class| char::from_u32(first(class)?));
        all.collect()
    }
}
