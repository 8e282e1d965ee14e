//! Any pattern as a deterministic automaton over characters: one table lookup per character.
//!
//! Every look at a neighbour is decided when the table is made, and the walk goes back only where a longer match
//! failed: the last end seen is the match. Where a match ends before the character that was read, as most do, the
//! entry leads on into the next match, so that finding the end of a word costs no branch.

use std::collections::HashSet;

use super::alphabet::Alphabet;
use super::classes::decode;
use super::dfa::{Dfa, DEAD, DROPS, ENDS, START};
use super::nfa::Nfa;
use super::regex::parse;
use super::spec::{Behavior, Step};

/// A match ends before the character; the state is that of the next match, which begins with it.
const CUT: u32 = 1 << 31;
/// A match ends before the character if no longer one is found.
const MARK: u32 = 1 << 30;
/// There is no next state.
const STOP: u32 = 1 << 29;
/// The match that ends is dropped.
const DROP: u32 = 1 << 28;
const FLAGS: u32 = CUT | MARK | STOP | DROP;
/// Entries of ASCII bytes in a row.
const ASCII: usize = 128;

/// A compiled pattern; it never matches the empty string.
#[derive(Debug)]
pub struct Automaton {
    /// A row of entries per state, by ASCII byte and then by class. A state is the place of its row.
    table: Vec<u32>,
    alphabet: Alphabet,
    /// The first state.
    start: u32,
    /// Whether no match is dropped.
    pub tiles: bool,
}

impl Automaton {
    /// Compiles a chain: the matches are its pieces, so there is one at every place. None if a pattern cannot be
    /// expressed, is too large, or may match the empty string, or if one of several steps drops text.
    pub fn of_pieces(steps: &[Step]) -> Option<Self> {
        let mut nfa = Nfa::new();
        let starts = steps.iter().map(|step| {
            let (regex, dialect) = step.regex();
            nfa.add(&parse(&regex, dialect)?, 0)
        });
        let starts = starts.collect::<Option<Vec<_>>>()?;
        let alphabet = Alphabet::new(&nfa.sets)?;
        let mut whole: Option<Dfa> = None;
        for (step, start) in steps.iter().zip(starts) {
            let matches = Dfa::new(&nfa, &alphabet, start)?;
            let dropped = match step.behavior() {
                (Behavior::Isolated, _) => [0, 0],
                (Behavior::Contiguous, _) if !matches!(step, Step::Split { .. }) => [0, 0],
                (Behavior::Removed, true) if matches.tiles() => [0, 0],
                (Behavior::Removed, invert) if steps.len() == 1 => {
                    [!invert, invert].map(|drops| u32::from(drops) * DROPS)
                }
                _ => return None,
            };
            let pieces = matches.tiled(dropped)?;
            whole = Some(match whole {
                Some(whole) => whole.then(&pieces)?,
                None => pieces,
            });
        }
        Some(Self::new(&whole?, alphabet))
    }

    fn new(dfa: &Dfa, alphabet: Alphabet) -> Self {
        let (classes, edge) = (alphabet.sets.len(), alphabet.edge());
        let place = |state: u32| state * (ASCII + classes) as u32;
        let entry = |state, class| {
            let entry = dfa.entry(state, class);
            let drops = (entry & DROPS) / (DROPS / DROP);
            match entry & !DROPS {
                DEAD => STOP,
                ENDS if class == edge => CUT | STOP | drops,
                ENDS => CUT | place(dfa.entry(START, class)) | drops,
                next => place(next & !ENDS) | if next & ENDS == 0 { 0 } else { MARK | drops },
            }
        };
        let ascii = (0..ASCII as u32).map(|byte| alphabet.class(byte));
        let columns: Vec<usize> = ascii.chain(0..classes).collect();
        let row = |state: usize| columns.iter().map(move |&class| entry(state as u32, class));
        let table: Vec<u32> = (0..dfa.len()).flat_map(row).collect();
        Self {
            tiles: table.iter().all(|entry| entry & DROP == 0),
            table,
            start: place(START),
            alphabet,
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

    /// The end of the match that starts at `at`, which is not the end of the text.
    #[inline(always)]
    pub fn match_end(&self, text: &[u8], at: usize) -> usize {
        let (mut state, mut here, mut end) = (self.start, at, at);
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
            state = entry & !(MARK | DROP);
            here += width;
        }
    }

    /// Writes the ends of the matches from `at` on, and returns their number. `note` receives the index of each and whether it is dropped.
    #[inline(always)]
    pub fn fill(
        &self,
        text: &[u8],
        at: usize,
        ends: &mut [u32],
        mut note: impl FnMut(usize, bool),
    ) -> usize {
        let (mut state, mut here, mut end, mut count) = (self.start, at, (at, false), 0);
        while count < ends.len() && at < text.len() {
            let (entry, width) = self.step(state, text, here);
            // Written in any case, and kept if the match ends here.
            ends[count] = here as u32;
            note(count, entry & DROP != 0);
            count += (entry >> 31) as usize;
            if entry & STOP == 0 {
                // Selected without a branch: where a match could end is hard to predict.
                let mark = (here, entry & DROP != 0);
                end = if entry & MARK == 0 { end } else { mark };
                state = entry & !FLAGS;
                here += width;
            } else if entry & CUT != 0 {
                break;
            } else {
                ends[count] = end.0 as u32;
                note(count, end.1);
                count += 1;
                (state, here) = (self.start, end.0);
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
        let start = (self.start, other.start);
        let (mut seen, mut stack) = (HashSet::from([start]), vec![start]);
        while let Some((mine, theirs)) = stack.pop() {
            for &(left, right) in &classes {
                let (left, right) = (self.entry(mine, left), other.entry(theirs, right));
                if left & FLAGS != right & FLAGS {
                    return false;
                }
                let next = (left & !FLAGS, right & !FLAGS);
                if left & STOP == 0 && seen.insert(next) {
                    stack.push(next);
                }
            }
        }
        true
    }
}
