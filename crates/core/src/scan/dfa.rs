//! Deterministic automata over classes of characters, and how the steps of a chain become one.
//!
//! A state is the ordered list of places that the backtracking engine would try, best first. A class decides two things: whether a match ends before its character, and the next state. The last end seen
//! before [`DEAD`] is the match, so an end may be recorded while a longer match is still possible.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::alphabet::Alphabet;
use super::nfa::{Nfa, Node, Test};

/// Set in an entry if a match ends before the character and perhaps none later.
pub const ENDS: u32 = 1 << 31;
/// Set with [`ENDS`] if the piece that ends is dropped.
pub const DROPS: u32 = 1 << 30;
/// No match ends later.
pub const DEAD: u32 = 0;
/// The first state.
pub const START: u32 = 1;
/// The number of states above which a pattern is not compiled.
const MAX_STATES: usize = 4096;

/// Entries by state and class. The last class is the edge of the text.
#[derive(Debug)]
pub struct Dfa {
    /// A row of entries per state: the next state, [`ENDS`] and [`DROPS`].
    rows: Vec<u32>,
    classes: usize,
    /// Whether a state may lead to [`DEAD`] without an end on the way.
    failing: Vec<bool>,
}

/// The state of [`Dfa::tiled`].
#[derive(Clone, PartialEq, Eq, Hash)]
enum Tile {
    /// Inside a match.
    Match(u32),
    /// In a match that may fail, or in text before a match.
    Open {
        /// Nothing has been read.
        is_new: bool,
        /// The state of a match from the start of the piece.
        whole: u32,
        /// The states of later matches that may fail. The end of the piece was recorded before the first.
        later: Vec<u32>,
    },
}

/// The state of [`Dfa::then`].
#[derive(Clone, PartialEq, Eq, Hash)]
struct Both {
    first: u32,
    second: u32,
    /// The piece of the first step may have ended where the last end was recorded.
    ended: bool,
    /// The last end of the second step is needed and was replaced by one of the first.
    lost: bool,
    /// The first step if it starts again at the last end of the second; None if it would end elsewhere.
    again: Option<u32>,
}

impl Dfa {
    /// The matches of the pattern that begins at a node. None if there are too many states, if it may match the empty
    /// string, or if text of any length may be scanned without a match: a search could take quadratic time.
    pub fn new(nfa: &Nfa, alphabet: &Alphabet, start: u32) -> Option<Self> {
        let dfa = Self::explore(vec![start], alphabet.sets.len(), |places, class| {
            let (ends, places) = step(nfa, alphabet.sets[class], places);
            Some((flag(ends), (!places.is_empty()).then_some(places)))
        })?;
        let is_end = |class| dfa.entry(START, class) & ENDS != 0;
        let may_be_empty = (0..dfa.classes).any(is_end);
        (!may_be_empty && !dfa.is_open()).then_some(dfa)
    }

    /// Numbers all states that can be reached. `step` returns the flags of an entry and the next state, or None to
    /// give up.
    fn explore<K: Clone + Eq + Hash>(
        start: K,
        classes: usize,
        mut step: impl FnMut(&K, usize) -> Option<(u32, Option<K>)>,
    ) -> Option<Self> {
        let (mut numbers, mut keys) = (HashMap::from([(start.clone(), START)]), vec![start]);
        let (mut rows, mut done) = (vec![DEAD; classes], 0);
        while done < keys.len() {
            if keys.len() > MAX_STATES {
                return None;
            }
            let key = keys[done].clone();
            for class in 0..classes {
                let (flags, next) = step(&key, class)?;
                let next = next.map_or(DEAD, |next| {
                    *numbers.entry(next).or_insert_with_key(|next| {
                        keys.push(next.clone());
                        keys.len() as u32
                    })
                });
                rows.push(next | flags);
            }
            done += 1;
        }
        Some(Self::settled(rows, classes))
    }

    /// Finds the states that may fail, and removes ends that are always followed by another.
    fn settled(mut rows: Vec<u32>, classes: usize) -> Self {
        let mut failing = vec![false; rows.len() / classes];
        failing[DEAD as usize] = true;
        let mut found = true;
        while std::mem::take(&mut found) {
            // Most states come before those that they lead to.
            for state in (0..failing.len()).rev().filter(|&state| state != DEAD as usize) {
                let mut row = rows[state * classes..][..classes].iter();
                let fails = row.any(|entry| entry & ENDS == 0 && failing[*entry as usize]);
                found |= fails && !failing[state];
                failing[state] = fails;
            }
        }
        for entry in &mut rows {
            let next = *entry & !(ENDS | DROPS);
            if !failing[next as usize] {
                *entry = next;
            }
        }
        Self { rows, classes, failing }
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.failing.len()
    }

    /// The entry of a state.
    pub fn entry(&self, state: u32, class: usize) -> u32 {
        self.rows[state as usize * self.classes + class]
    }

    /// The same in two parts.
    fn parts(&self, state: u32, class: usize) -> (bool, u32) {
        let entry = self.entry(state, class);
        (entry & ENDS != 0, entry & !(ENDS | DROPS))
    }

    fn fails(&self, state: u32) -> bool {
        self.failing[state as usize]
    }

    fn edge(&self) -> usize {
        self.classes - 1
    }

    /// Whether some alternative matches at every place of every text.
    pub fn tiles(&self) -> bool {
        (0..self.edge()).all(|class| !self.fails(self.entry(START, class)))
    }

    /// Whether a match can fail after text of any length.
    fn is_open(&self) -> bool {
        let (mut open, mut stack) = (HashSet::new(), vec![START]);
        let next = |state: u32| (0..self.classes).map(move |class| self.entry(state, class));
        while let Some(state) = stack.pop() {
            let pending = state & ENDS == 0 && state != DEAD && self.fails(state);
            if pending && open.insert(state) {
                stack.extend(next(state));
            }
        }
        loop {
            let leads_on = |state: &u32| next(*state).any(|state| open.contains(&state));
            let left: HashSet<u32> = open.iter().copied().filter(leads_on).collect();
            if left.len() == open.len() {
                return !open.is_empty();
            }
            open = left;
        }
    }

    /// The pieces of a text: the matches, and what lies between them. `dropped` are the flags of each. None if the start
    /// of a match would have to be found again after a later one was recorded.
    pub fn tiled(&self, dropped: [u32; 2]) -> Option<Self> {
        let start = Tile::Open { is_new: true, whole: START, later: Vec::new() };
        Self::explore(start, self.classes, |tile, class| self.tile(tile, class, dropped))
    }

    fn tile(&self, tile: &Tile, class: usize, dropped: [u32; 2]) -> Option<(u32, Option<Tile>)> {
        let matched = |ends, next| {
            let flags = if ends { ENDS | dropped[0] } else { 0 };
            Some((flags, (next != DEAD).then_some(Tile::Match(next))))
        };
        let between = ENDS | dropped[1];
        let (is_new, whole, later) = match tile {
            Tile::Match(state) => {
                let (ends, next) = self.parts(*state, class);
                return matched(ends, next);
            }
            Tile::Open { is_new, whole, later } => (*is_new, *whole, later),
        };
        let is_sure = |ends, next| ends || !self.fails(next);
        let (ends, whole) = self.parts(whole, class);
        if is_sure(ends, whole) {
            return matched(ends, whole);
        }
        let mut left = Vec::new();
        for (i, &state) in later.iter().enumerate() {
            let (ends, next) = self.parts(state, class);
            let is_recorded = i == 0 || !left.is_empty();
            if is_sure(ends, next) {
                return (i == 0 && whole == DEAD).then_some((0, None));
            }
            if next != DEAD {
                left.push(is_recorded.then_some(next)?);
            }
        }
        if class == self.edge() {
            return Some((between, None));
        }
        let (_, next) = self.parts(if is_new { DEAD } else { START }, class);
        let ends = next != DEAD && left.is_empty();
        if !self.fails(next) {
            return (ends && whole == DEAD).then_some((between, None));
        }
        left.extend((next != DEAD).then_some(next));
        let next = Tile::Open { is_new: false, whole, later: left };
        Some((if ends { between } else { 0 }, Some(next)))
    }

    /// The pieces of another step inside the pieces of this one, both tiled. None if two ends would have to be kept
    /// in mind, or if a piece of this step could not be found again after a cut inside it.
    pub fn then(&self, second: &Self) -> Option<Self> {
        let start = Both { first: START, second: START, ended: false, lost: false, again: None };
        let mut checked = HashSet::new();
        Self::explore(start, self.classes, |both, class| {
            self.both(second, both, class, &mut checked)
        })
    }

    fn both(
        &self,
        second: &Self,
        both: &Both,
        class: usize,
        checked: &mut HashSet<(u32, u32, bool)>,
    ) -> Option<(u32, Option<Both>)> {
        let (first_ends, first) = self.parts(both.first, class);
        let (second_ends, other) = second.parts(both.second, class);
        let again = both.again.map(|again| self.parts(again, class));
        // Whether the piece ends here if that of the first step does.
        let here = second.entry(both.second, second.edge()) & ENDS != 0;
        if first == DEAD {
            let is_inside = first_ends && !here;
            let known = !is_inside || !both.lost && again == Some((true, DEAD));
            return known.then_some((flag(first_ends && here), None));
        }
        let ended = first_ends || both.ended && self.fails(first);
        if first_ends && !here || second_ends && ended && !first_ends {
            return None;
        }
        let goes_on = |&(ends, next): &(bool, u32)| ends == first_ends && next != DEAD;
        let again = if second_ends {
            Some(self.entry(START, class))
        } else {
            again.filter(goes_on).map(|(_, next)| next)
        };
        let lost = !second_ends && (both.lost || first_ends) && second.fails(other);
        if other == DEAD {
            let known = !lost && self.restarts(first, again?, checked);
            return known.then_some((flag(second_ends), None));
        }
        let next = Both {
            first,
            second: other,
            ended,
            lost,
            again: again.filter(|_| second.fails(other)),
        };
        Some((flag(first_ends || second_ends), Some(next)))
    }

    /// Whether a piece that continues after a cut ends where a new one does that starts at the cut. A piece that ended
    /// at the cut needs no continuation.
    fn restarts(&self, old: u32, new: u32, checked: &mut HashSet<(u32, u32, bool)>) -> bool {
        let mut stack = vec![(old, new, false)];
        while let Some((old, new, ended)) = stack.pop() {
            if old == new || !checked.insert((old, new, ended)) {
                continue;
            }
            for class in 0..self.classes {
                let (old_ends, old) = self.parts(old, class);
                let (new_ends, new) = self.parts(new, class);
                let is_void = old == DEAD && !old_ends && !ended;
                if !is_void && (old_ends != new_ends || (old == DEAD) != (new == DEAD)) {
                    return false;
                }
                if old != DEAD {
                    stack.push((old, new, ended || old_ends));
                }
            }
        }
        true
    }
}

fn flag(ends: bool) -> u32 {
    u32::from(ends) * ENDS
}

/// Whether a match ends before a character that is in these sets, and where to continue after it.
fn step(nfa: &Nfa, sets: u128, places: &[u32]) -> (bool, Vec<u32>) {
    let (mut seen, mut next) = (HashSet::new(), Vec::new());
    let mut stack: Vec<u32> = places.iter().rev().copied().collect();
    while let Some(place) = stack.pop() {
        if !seen.insert(place) {
            continue;
        }
        match nfa.nodes[place as usize] {
            // What comes after it in the list was only to be tried without this match.
            Node::Match => return (true, next),
            Node::Either(first, second) => stack.extend([second, first]),
            Node::If(test, set, then) => match test {
                _ if sets >> set & 1 == 0 => {}
                Test::Take if next.contains(&then) => {}
                Test::Take => next.push(then),
                Test::Ahead => stack.push(then),
            },
        }
    }
    (false, next)
}
