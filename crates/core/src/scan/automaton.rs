//! Any pattern as a deterministic automaton over characters: one table lookup per character.
//!
//! Every look at a neighbour is decided when the table is made, and the walk goes back only where a longer match
//! failed: the last end seen is the match. Where a match ends before the character that was read, as most do, the
//! entry leads on into the next match, so that finding the end of a word costs no branch.

use std::collections::HashSet;

use super::alphabet::Alphabet;
use super::classes::decode;
use super::dfa::{Dfa, DEAD, ENDS};
use super::nfa::Nfa;
use super::spec::{Behavior, Step};

/// A match ends before the character; the state is that of the next match, which begins with it.
const CUT: u32 = 1 << 31;
/// A match ends before the character if no longer one is found.
const MARK: u32 = 1 << 30;
/// There is no next state.
const STOP: u32 = 1 << 29;
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
}

impl Automaton {
    /// Compiles a step. None if the pattern cannot be expressed, is too large, or may match the empty string.
    pub fn of_matches(step: &Step) -> Option<Self> {
        let mut nfa = Nfa::new();
        let start = nfa.add_step(step)?;
        let alphabet = Alphabet::new(&nfa.sets)?;
        Some(Self::new(&Dfa::new(&nfa, &alphabet, start)?, alphabet))
    }

    /// Compiles a chain that drops nothing: the matches are its pieces, so there is one at every place.
    pub fn of_pieces(steps: &[Step]) -> Option<Self> {
        let mut nfa = Nfa::new();
        let starts = steps.iter().map(|step| nfa.add_step(step));
        let starts = starts.collect::<Option<Vec<_>>>()?;
        let alphabet = Alphabet::new(&nfa.sets)?;
        let mut whole: Option<Dfa> = None;
        for (step, start) in steps.iter().zip(starts) {
            let matches = Dfa::new(&nfa, &alphabet, start)?;
            let keeps = match step.behavior() {
                (Behavior::Isolated, _) => true,
                (Behavior::Contiguous, _) => step.regex().is_none(),
                (Behavior::Removed, invert) => invert && matches.tiles(),
                _ => false,
            };
            let pieces = matches.tiled().filter(|_| keeps)?;
            whole = Some(match whole {
                Some(whole) => whole.then(&pieces)?,
                None => pieces,
            });
        }
        Some(Self::new(&whole?, alphabet))
    }

    fn new(dfa: &Dfa, alphabet: Alphabet) -> Self {
        let (classes, edge, first) = (alphabet.sets.len(), alphabet.edge(), dfa.starts[0]);
        let place = |state: u32| state * (ASCII + classes) as u32;
        let entry = |state, class| match dfa.entry(state, class) {
            DEAD => STOP,
            ENDS if class == edge || dfa.entry(first, class) == DEAD => CUT | STOP,
            ENDS => CUT | place(dfa.entry(first, class)),
            next => place(next & !ENDS) | if next & ENDS == 0 { 0 } else { MARK },
        };
        let ascii = (0..ASCII as u32).map(|byte| alphabet.class(byte));
        let columns: Vec<usize> = ascii.chain(0..classes).collect();
        let row = |state: usize| columns.iter().map(move |&class| entry(state as u32, class));
        let table: Vec<u32> = (0..dfa.len()).flat_map(row).collect();
        let (looks_behind, start) = (dfa.looks_behind(), place(first) as usize);
        let is_idle = |byte: usize| byte < ASCII && !looks_behind && table[start + byte] == STOP;
        Self {
            idle: std::array::from_fn(is_idle),
            starts: dfa.starts.iter().map(|&state| place(state)).collect(),
            table,
            alphabet,
            looks_behind,
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
            if entry >= STOP {
                if entry & CUT != 0 {
                    return here;
                }
                if entry & STOP != 0 {
                    return end;
                }
                end = here;
            }
            state = entry & !MARK;
            here += width;
        }
    }

    /// Writes the ends of the matches from `at` on, which must leave nothing between them; returns their number.
    pub fn fill(&self, text: &[u8], at: usize, ends: &mut [u32]) -> usize {
        let (mut state, mut here, mut end, mut count) = (self.starts[0], at, at, 0);
        while count < ends.len() && at < text.len() {
            let (entry, width) = self.step(state, text, here);
            // Written in any case, and kept if the match ends here.
            ends[count] = here as u32;
            count += (entry >> 31) as usize;
            if entry & (MARK | STOP) == 0 {
                state = entry & !CUT;
                here += width;
            } else if entry & MARK != 0 {
                end = here;
                state = entry & !MARK;
                here += width;
            } else if entry & CUT != 0 {
                break;
            } else {
                ends[count] = end as u32;
                count += 1;
                (state, here) = (self.starts[0], end);
            }
        }
        count
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
                if left & (CUT | MARK | STOP) != right & (CUT | MARK | STOP) {
                    return false;
                }
                let next = (left & !(CUT | MARK), right & !(CUT | MARK));
                if left & STOP == 0 && seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        !self.looks_behind && !other.looks_behind
    }
}
