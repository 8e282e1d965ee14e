//! Any pattern as a deterministic automaton over characters: one table lookup per character.
//!
//! A state is the ordered list of places that the backtracking engine would try, best first, with what lies before
//! it. A character decides two things: whether a match ends before it, and the next state. So every look at a
//! neighbour is decided when the table is made, and the walk itself never goes back: the last end seen is the match.

use std::collections::{HashMap, HashSet};

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::alphabet::Alphabet;
use super::classes::{decode, properties, HF_DIGIT, HF_PUNCTUATION};
use super::nfa::{Nfa, Node, Test};
use super::regex::parse;
use super::spec::{Behavior, Dialect, Step};

/// Set in an entry if a match ends before the character and perhaps none later.
const ENDS: u32 = 1 << 31;
/// No match ends later.
const DEAD: u32 = 0;
/// The number of states above which a pattern is not compiled.
const MAX_STATES: usize = 4096;
/// Entries of ASCII bytes in a row.
const ASCII: usize = 128;

/// A compiled pattern; it never matches the empty string.
#[derive(Debug)]
pub struct Automaton {
    /// A row of entries per state, by ASCII byte and then by class. A state is the place of its row.
    table: Vec<u32>,
    alphabet: Alphabet,
    /// The first state, by the class of the character before the match.
    starts: Vec<u32>,
    looks_behind: bool,
    /// Bytes at which no match starts, whatever follows.
    idle: [bool; 256],
    /// Whether some alternative matches at every place of every text.
    tiles: bool,
}

impl Automaton {
    /// Compiles one step, or HF's `Digits` one by one and another step. None if the pattern cannot be expressed, is
    /// too large, or may match the empty string.
    pub fn of_steps(steps: &[Step]) -> Option<Self> {
        let (bit, rest) = match steps {
            [Step::Digits { individual: true }, rest @ ..] => (HF_DIGIT, rest),
            [Step::Digits { .. }] => (HF_DIGIT, &[][..]),
            [Step::Punctuation { .. }] => (HF_PUNCTUATION, &[][..]),
            _ => (0, steps),
        };
        let last = if bit == 0 { '\0' } else { char::MAX };
        let apart = ('\0'..=last).filter(|&c| properties(c as u32) & bit != 0);
        let apart = ClassUnicode::new(apart.map(|c| ClassUnicodeRange::new(c, c)));
        match rest {
            [] => Self::build(&Nfa::new(None, apart)?),
            [step] => {
                let (regex, dialect) = step.regex()?;
                Self::build(&Nfa::new(Some(&parse(regex, dialect)?), apart)?)
            }
            _ => None,
        }
    }

    /// Compiles steps whose pieces are the matches and the text between them, or that match everywhere.
    pub fn of_pieces(steps: &[Step]) -> Option<Self> {
        let (behavior, invert) = match steps.last()? {
            Step::ByteLevel => (Behavior::Isolated, false),
            Step::Split {
                behavior, invert, ..
            } => (*behavior, *invert),
            _ => return None,
        };
        let all = behavior == Behavior::Isolated;
        let matches = behavior == Behavior::Removed && invert && steps.len() == 1;
        Self::of_steps(steps).filter(|automaton| all || matches && automaton.tiles)
    }

    /// Compiles a regex.
    pub fn of_regex(regex: &str, dialect: Dialect) -> Option<Self> {
        Self::build(&Nfa::new(
            Some(&parse(regex, dialect)?),
            ClassUnicode::empty(),
        )?)
    }

    fn build(nfa: &Nfa) -> Option<Self> {
        let alphabet = Alphabet::new(&nfa.sets)?;
        let (rows, starts) = Builder::new(nfa, &alphabet).build()?;
        let (classes, mut table) = (alphabet.sets.len(), Vec::new());
        let place = |state: u32| state * (ASCII + classes) as u32;
        for row in rows.chunks(classes) {
            let ascii = (0..ASCII as u32).map(|byte| alphabet.class(byte));
            let entries = ascii.chain(0..classes).map(|class| row[class]);
            table.extend(entries.map(|entry| place(entry & !ENDS) | entry & ENDS));
        }
        let mut automaton = Self {
            table,
            alphabet,
            looks_behind: starts.iter().any(|start| *start != starts[0]),
            starts: starts.into_iter().map(place).collect(),
            idle: [false; 256],
            tiles: false,
        };
        automaton.look_for_ends().then_some(automaton)
    }

    /// Finds out where a match must end. Returns false if text of any length may be scanned without a match: a search could
    /// take quadratic time.
    fn look_for_ends(&mut self) -> bool {
        let (edge, row) = (self.alphabet.edge(), ASCII + self.alphabet.sets.len());
        let states = (0..self.table.len() / row).map(|number| (number * row) as u32);
        let mut failing = HashSet::from([DEAD]);
        loop {
            let fails =
                |state: &u32| (0..=edge).any(|class| failing.contains(&self.entry(*state, class)));
            let more: Vec<u32> = (states.clone().filter(|state| !failing.contains(state)))
                .filter(fails)
                .collect();
            if more.is_empty() {
                break;
            }
            failing.extend(more);
        }
        // What ends after an end in any case makes that end void.
        for entry in &mut self.table {
            if !failing.contains(&(*entry & !ENDS)) {
                *entry &= !ENDS;
            }
        }
        let first = |&start: &u32| (0..edge).map(move |class| (start, class));
        self.tiles = (self.starts.iter().flat_map(first))
            .all(|(start, class)| !failing.contains(&self.entry(start, class)));
        for byte in 0..ASCII * usize::from(!self.looks_behind) {
            self.idle[byte] = self.table[self.starts[0] as usize + byte] == DEAD;
        }
        let mut open = HashSet::new();
        let mut stack = self.starts.clone();
        while let Some(state) = stack.pop() {
            if state & ENDS == 0 && state != DEAD && failing.contains(&state) && open.insert(state)
            {
                stack.extend((0..=edge).map(|class| self.entry(state, class)));
            }
        }
        loop {
            let leads_on =
                |state: &u32| (0..=edge).any(|class| open.contains(&self.entry(*state, class)));
            let left: HashSet<u32> = open.iter().copied().filter(leads_on).collect();
            if left.len() == open.len() {
                return open.is_empty();
            }
            open = left;
        }
    }

    fn entry(&self, state: u32, class: usize) -> u32 {
        self.table[state as usize + ASCII + class]
    }

    /// The entry for the character at `at` and its width; the end of the text has width 1.
    #[inline(always)]
    fn step(&self, state: u32, text: &[u8], at: usize) -> (u32, usize) {
        match text.get(at) {
            Some(&byte) if byte < 128 => (self.table[state as usize + usize::from(byte)], 1),
            Some(&lead) => {
                let (code_point, width) = decode(text, at, lead);
                (self.entry(state, self.alphabet.class(code_point)), width)
            }
            None => (self.entry(state, self.alphabet.edge()), 1),
        }
    }

    /// The first state of a match at `at`.
    #[inline(always)]
    fn start(&self, text: &[u8], at: usize) -> u32 {
        if !self.looks_behind {
            return self.starts[0];
        }
        let before = text[..at].iter().rposition(|byte| byte & 0xC0 != 0x80);
        let class = before.map_or(self.alphabet.edge(), |before| {
            self.alphabet.class(decode(text, before, text[before]).0)
        });
        self.starts[class]
    }

    /// The end of the match that starts at `at`; `at` itself if there is none.
    #[inline(always)]
    pub fn match_end(&self, text: &[u8], at: usize) -> usize {
        let (mut state, mut here, mut end) = (self.start(text, at), at, at);
        loop {
            let (entry, width) = self.step(state, text, here);
            // One branch for what most characters do: neither an end nor dead.
            if entry.wrapping_sub(1) >= ENDS - 1 {
                if entry & ENDS != 0 {
                    end = here;
                }
                if entry & !ENDS == DEAD {
                    return end;
                }
            }
            state = entry & !ENDS;
            here += width;
        }
    }

    /// The first match at or after `at`: its start and end, both the end of the text if there is none.
    #[inline(always)]
    fn find(&self, text: &[u8], mut at: usize) -> (usize, usize) {
        while let Some(&byte) = text.get(at) {
            if self.idle[usize::from(byte)] {
                at += 1;
                continue;
            }
            let end = self.match_end(text, at);
            if end > at {
                return (at, end);
            }
            at += decode(text, at, byte).1;
        }
        (at, at)
    }

    /// Calls `visit(start, end)` for each match in `text`, from left to right.
    pub fn for_each_match(&self, text: &[u8], mut visit: impl FnMut(usize, usize)) {
        let mut at = 0;
        while at < text.len() {
            let (start, end) = self.find(text, at);
            if end > start {
                visit(start, end);
            }
            at = end;
        }
    }

    /// Whether no match starts in `text`, as far as single bytes can tell.
    #[inline(always)]
    pub fn is_idle(&self, text: &[u8]) -> bool {
        text.iter().all(|&byte| self.idle[usize::from(byte)])
    }

    /// Writes the ends of the matches from `at` on, and of what lies between them; returns their number.
    pub fn fill(&self, text: &[u8], mut at: usize, ends: &mut [u32]) -> usize {
        let mut count = 0;
        while count < ends.len() && at < text.len() {
            let mut end = self.match_end(text, at);
            if end == at {
                (at, end) = self.find(text, at);
                ends[count] = at as u32;
                count += 1;
            }
            if count < ends.len() && end > at {
                at = end;
                ends[count] = at as u32;
                count += 1;
            }
        }
        count
    }

    /// A character of each class that the pattern distinguishes.
    pub fn samples(&self) -> Vec<char> {
        self.alphabet.samples()
    }

    /// Whether two patterns are known to match alike, because their automata do.
    pub fn equals(&self, other: &Self) -> bool {
        let classes = self.alphabet.pairs(&other.alphabet);
        let start = (self.starts[0], other.starts[0]);
        let (mut seen, mut stack) = (HashSet::from([start]), vec![start]);
        while let Some((mine, theirs)) = stack.pop() {
            for &(left, right) in &classes {
                let (left, right) = (self.entry(mine, left), other.entry(theirs, right));
                let next = (left & !ENDS, right & !ENDS);
                if left & ENDS != right & ENDS || (next.0 == DEAD) != (next.1 == DEAD) {
                    return false;
                }
                if next.0 != DEAD && seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        !self.looks_behind && !other.looks_behind
    }
}

/// The places to continue from, best first, and which of the sets tested behind hold the character before.
type Key = (Vec<u32>, u128);

/// The subset construction.
struct Builder<'a> {
    nfa: &'a Nfa,
    alphabet: &'a Alphabet,
    numbers: HashMap<Key, u32>,
    states: Vec<Key>,
}

impl<'a> Builder<'a> {
    fn new(nfa: &'a Nfa, alphabet: &'a Alphabet) -> Self {
        Self {
            nfa,
            alphabet,
            numbers: HashMap::new(),
            states: vec![(Vec::new(), 0)],
        }
    }

    fn number(&mut self, key: Key) -> u32 {
        if key.0.is_empty() {
            return DEAD;
        }
        let next = self.states.len() as u32;
        *self.numbers.entry(key).or_insert_with_key(|key| {
            self.states.push(key.clone());
            next
        })
    }

    /// The table of entries, and the first states.
    fn build(mut self) -> Option<(Vec<u32>, Vec<u32>)> {
        let behind = self.nfa.nodes.iter().fold(0, |bits, node| match node {
            Node::If(Test::Behind, set, _) => bits | 1 << set,
            _ => bits,
        });
        let contexts: Vec<u128> = (self.alphabet.sets.iter())
            .map(|sets| sets & behind)
            .collect();
        let first = |&context: &u128| self.number((vec![self.nfa.start], context));
        let starts: Vec<u32> = contexts.iter().map(first).collect();
        let (mut table, mut done) = (vec![DEAD; contexts.len()], 1);
        while done < self.states.len() {
            if self.states.len() > MAX_STATES {
                return None;
            }
            let key = self.states[done].clone();
            for (class, &context) in contexts.iter().enumerate() {
                let (ends, places) = self.step(&key, class);
                // An empty match would be found at every place.
                if ends && starts.contains(&(done as u32)) {
                    return None;
                }
                let next = self.number((places, context));
                table.push(next | if ends { ENDS } else { 0 });
            }
            done += 1;
        }
        Some((table, starts))
    }

    /// Whether a match ends before a character of this class, and where to continue after it.
    fn step(&self, (places, behind): &Key, class: usize) -> (bool, Vec<u32>) {
        let (mut seen, mut next) = (HashSet::new(), Vec::new());
        let mut stack: Vec<u32> = places.iter().rev().copied().collect();
        while let Some(place) = stack.pop() {
            if !seen.insert(place) {
                continue;
            }
            match self.nfa.nodes[place as usize] {
                // What comes after it in the list was only to be tried without this match.
                Node::Match => return (true, next),
                Node::Either(first, second) => stack.extend([second, first]),
                Node::If(test, set, then) => {
                    let here = self.alphabet.sets[class];
                    let sets = if test == Test::Behind { *behind } else { here };
                    match test {
                        _ if sets >> set & 1 == 0 => {}
                        Test::Take if next.contains(&then) => {}
                        Test::Take => next.push(then),
                        Test::Ahead | Test::Behind => stack.push(then),
                    }
                }
            }
        }
        (false, next)
    }
}
