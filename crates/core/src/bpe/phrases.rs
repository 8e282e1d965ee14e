//! Pieces that span words, as the patterns of `SuperBPE` make them: hundreds of bytes long, and hardly ever repeated.
//!
//! If every product ranks after its parts, a sequence of tokens is the result of merging a piece exactly when any two
//! neighbours are the result of merging those two alone. So a piece may be divided anywhere to begin with. Here it is
//! divided into words, which the cache knows. Their tokens are then joined from left to right: two neighbours that do
//! not stay as they are become what they merge into, until all of them stay.

use super::canonical::stay_apart;
use super::encode::{Bpe, SEGMENT};
use super::gathered::Mark;
use super::keys::LONG;
use super::merge::MergeScratch;
use super::segments::{Segments, ROOM};
use super::tables::Tables;
use super::{EncodeState, NONE};
use crate::hash::SPREAD;
use crate::pages::Pages;
use crate::scan::{ScanSpec, Scanner};
use crate::Result;

/// Stands before and after a divided piece in the output until its words are joined; no token has this id.
const EDGE: u32 = NONE;
/// Pairs of tokens whose result is remembered, in a megabyte.
const RESULTS: usize = 1 << 16;
/// A result has up to three symbols, each in this many bits.
const SYMBOL_BITS: u32 = 21;
const NO_SYMBOL: u64 = (1 << SYMBOL_BITS) - 1;
/// The result of two tokens that stay as they are.
const APART: u64 = u64::MAX;
/// Kinds of characters. No word ends between two characters of the same kind.
const LETTER: u64 = 1 << 63;
const DIGIT: u64 = 1 << 62;
const SIGN: u64 = 1 << 61;
const KINDS: u64 = LETTER | DIGIT | SIGN;

/// What divides pieces into words and joins these, for one vocabulary.
pub(crate) struct Phrases {
    words: Scanner,
    /// Symbol of each token id.
    symbol_of: Vec<u32>,
    /// By symbol, with a last entry for the beginning of a piece: the tokens that may merge with its end, and the tokens
    /// at its beginning that may merge with something before it. Both are sets of hashed bits, with the kind of
    /// character at that edge. Two neighbours without a common bit stay as they are.
    reach: Vec<(u64, u64)>,
}

/// What one thread keeps to join words.
pub(super) struct Joiner {
    /// The pairs of symbols that occurred last, each followed by its result.
    results: Pages<u64>,
    /// The output before its words are joined.
    words: Vec<u32>,
    /// The symbols of a piece: those that are done, and those that a result has put before the next word, in reverse.
    done: Vec<u32>,
    rest: Vec<u32>,
    bytes: Vec<u8>,
}

impl Joiner {
    fn new() -> Self {
        Self {
            results: Pages::zeroed(2 * RESULTS),
            words: Vec::new(),
            done: Vec::new(),
            rest: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Returns whether two neighbours without a product stay as they are; otherwise puts their result before the rest.
    #[inline(always)]
    fn are_apart(
        &mut self,
        tables: &Tables,
        (left, right): (u32, u32),
        scratch: &mut MergeScratch,
    ) -> bool {
        let key = u64::from(left) << 32 | u64::from(right) | 1 << 63;
        let slot = 2 * (key.wrapping_mul(SPREAD) >> (64 - RESULTS.trailing_zeros())) as usize;
        if self.results[slot] != key {
            let Some(result) = self.merge_pair(tables, (left, right), scratch) else {
                return false;
            };
            self.results[slot] = key;
            self.results[slot + 1] = result;
        }
        let mut result = self.results[slot + 1];
        if result == APART {
            return true;
        }
        while result & NO_SYMBOL != NO_SYMBOL {
            self.rest.push((result & NO_SYMBOL) as u32);
            result = result >> SYMBOL_BITS | NO_SYMBOL << (2 * SYMBOL_BITS);
        }
        false
    }

    /// Merges two tokens. If the result has too many symbols, puts it before the rest and returns `None`.
    #[inline(never)]
    fn merge_pair(
        &mut self,
        tables: &Tables,
        (left, right): (u32, u32),
        scratch: &mut MergeScratch,
    ) -> Option<u64> {
        let split = |symbol: u32| tables.splits[symbol as usize];
        if stay_apart(&tables.pairs, split, left, right) {
            return Some(APART);
        }
        self.bytes.clear();
        for symbol in [left, right] {
            self.bytes.extend_from_slice(tables.bytes_of(symbol));
        }
        tables.merge_whole(&self.bytes, scratch);
        let symbols = scratch.symbols.iter();
        if symbols.len() > 3 {
            self.rest.extend(symbols.rev());
            return None;
        }
        Some(symbols.fold(APART >> 1, |result, symbol| {
            (result << SYMBOL_BITS | u64::from(*symbol)) & (APART >> 1)
        }))
    }

    /// Merges a piece as a whole. Nothing proves that results come to an end, though no piece is known for which they do
    /// not.
    #[cold]
    fn merge_all(&mut self, tables: &Tables, words: &[u32], scratch: &mut MergeScratch) {
        let rest = self.rest.drain(..).rev().chain(words.iter().copied());
        let symbols = self.done.drain(..).chain(rest);
        let bytes = symbols.flat_map(|symbol| tables.bytes_of(symbol));
        let piece: Vec<u8> = bytes.copied().collect();
        tables.merge_whole(&piece, scratch);
        self.done.extend_from_slice(&scratch.symbols);
    }
}

impl Phrases {
    /// Returns `None` if no token spans words, or if the argument above does not hold.
    pub(crate) fn new(tables: &Tables, symbol_of: Vec<u32>) -> Result<Option<Self>> {
        let first_of = |symbol: u32| tables.bytes_of(symbol).first().map_or(0, |byte| kind(*byte));
        let last_of = |symbol: u32| tables.bytes_of(symbol).last().map_or(0, |byte| kind(*byte));
        let products = || {
            let products = (0..).zip(&tables.splits);
            products.filter(|(_, split)| split.0 != NONE)
        };
        let spans_words = |(_, split): (u32, &(u32, u32))| {
            last_of(split.0) != 0 && tables.bytes_of(split.1).starts_with(b" ")
        };
        let is_exact = tables.letters().is_some() && tables.ranks_rise();
        if !is_exact || !products().any(spans_words) {
            return Ok(None);
        }
        let bit = |symbol: u32| (1 << (u64::from(symbol).wrapping_mul(SPREAD) >> 58)) & !KINDS;
        // The merges of tokens that may be in different words, in order, and the first with each token on the right.
        let mut merges = Vec::new();
        let mut first = vec![NONE; tables.splits.len()];
        for (product, &(left, right)) in products() {
            if last_of(left) & first_of(right) == 0 {
                merges.push((left, product, bit(right).max(1)));
                first[right as usize] = first[right as usize].min(product);
            }
        }
        merges.sort_unstable();
        let mut reach = vec![(0, 0); tables.splits.len() + 1];
        for (symbol, (end, start)) in (0..tables.splits.len() as u32).zip(&mut reach) {
            (*end, *start) = (last_of(symbol), first_of(symbol));
            // A part of a token merges with something else only before it becomes part of the token.
            let (mut part, mut whole) = (symbol, NONE);
            while part != NONE {
                let from = merges.partition_point(|merge| merge.0 < part);
                let merges = merges[from..].iter();
                let early = merges.take_while(|merge| merge.0 == part && merge.1 <= whole);
                *end |= early.fold(0, |bits, merge| bits | merge.2);
                (whole, part) = (part, tables.splits[part as usize].1);
            }
            (part, whole) = (symbol, NONE - 1);
            while part != NONE {
                if first[part as usize] <= whole {
                    *start |= bit(part).max(1);
                }
                (whole, part) = (part, tables.splits[part as usize].0);
            }
        }
        Ok(Some(Self { words: Scanner::new(&ScanSpec::from_choice("gpt2")?)?, symbol_of, reach }))
    }

    /// Joins the symbols of the words of a piece into `joiner.done`.
    fn join(
        &self,
        tables: &Tables,
        words: &[u32],
        joiner: &mut Joiner,
        scratch: &mut MergeScratch,
    ) {
        let start = self.reach.len() as u32 - 1;
        joiner.done.clear();
        let mut last = start;
        // Few in tests, so that some pieces are merged as a whole.
        let mut patience = if cfg!(test) { words.len() % 7 } else { 16 + 4 * words.len() };
        // Whether a symbol is still that of its word: two tokens of one word stay as they are.
        let mut is_word = true;
        for (at, symbol) in words.iter().enumerate() {
            let (mut symbol, was_word) = (*symbol, is_word);
            is_word = true;
            loop {
                let reach = self.reach[last as usize].0 & self.reach[symbol as usize].1;
                if reach & !KINDS != 0 || reach != 0 && !(is_word && was_word) {
                    let product = tables.pairs.get(last, symbol);
                    let is_apart =
                        product == NONE && joiner.are_apart(tables, (last, symbol), scratch);
                    if !is_apart {
                        joiner.done.pop();
                        last = joiner.done.last().copied().unwrap_or(start);
                        if product == NONE {
                            if patience == 0 {
                                return joiner.merge_all(tables, &words[at + 1..], scratch);
                            }
                            symbol = joiner.rest.pop().unwrap_or(start);
                            patience -= 1;
                        } else {
                            symbol = product;
                        }
                        is_word = false;
                        continue;
                    }
                }
                joiner.done.push(symbol);
                last = symbol;
                match joiner.rest.pop() {
                    Some(next) => symbol = next,
                    None => break,
                }
            }
        }
    }
}

impl Bpe {
    /// Returns whether some of these pieces are divided into words.
    pub(super) fn has_phrases(&self, mut start: usize, ends: &[u32]) -> bool {
        self.tables().phrases.is_some()
            && ends.iter().any(|end| {
                let piece = start..*end as usize;
                start = piece.end;
                piece.len() > LONG
            })
    }

    /// Encodes consecutive pieces, the long ones word by word; [`Self::join_words`] must follow.
    pub(super) fn encode_phrases(
        &self,
        text: &str,
        start: usize,
        ends: &[u32],
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let Some(phrases) = &self.tables().phrases else {
            return Ok(());
        };
        if state.unjoined.is_none() {
            self.finish(state, out);
            state.unjoined = Some(out.len());
        }
        let (bytes, whole) = (text.as_bytes(), &self.tables().whole);
        let tag = if whole.is_empty() { 0 } else { SEGMENT };
        let (mut segments, mut marks) = (Segments::new(start), Vec::new());
        let (mut words, mut at) = ([0; ROOM / 4], start);
        for end in ends {
            let piece = at..*end as usize;
            at = piece.end;
            if segments.count + words.len() > ROOM {
                self.encode_segments(bytes, &mut segments, &marks, state, out);
                marks.clear();
            }
            if piece.len() <= LONG || whole.contains_key(&bytes[piece.clone()]) {
                segments.push(piece.end, 0);
                continue;
            }
            marks.push(Mark::id(segments.count, EDGE));
            let mut spans = phrases.words.spans(&text[piece.clone()]);
            loop {
                let count = spans.fill(&mut words)?;
                if count == 0 {
                    break;
                }
                if segments.count + count > ROOM {
                    self.encode_segments(bytes, &mut segments, &marks, state, out);
                    marks.clear();
                }
                for word in &words[..count] {
                    let end = piece.start + *word as usize;
                    // A contraction may end between two letters.
                    let letters = &bytes[end - 1..piece.end.min(end + 1)];
                    if letters.len() < 2 || !letters.iter().all(u8::is_ascii_alphabetic) {
                        segments.push(end, tag);
                    }
                }
            }
            marks.push(Mark::id(segments.count, EDGE));
        }
        self.encode_segments(bytes, &mut segments, &marks, state, out);
        Ok(())
    }

    /// Joins the words of all divided pieces of a text.
    pub(super) fn join_words(&self, state: &mut EncodeState, out: &mut Vec<u32>) {
        let tables = self.tables();
        let (Some(first), Some(phrases)) = (state.unjoined.take(), &tables.phrases) else {
            return;
        };
        self.finish(state, out);
        let joiner = state.joiner.get_or_insert_with(Joiner::new);
        let mut words = std::mem::take(&mut joiner.words);
        words.clear();
        words.extend_from_slice(&out[first..]);
        out.truncate(first);
        for (number, part) in words.split_mut(|id| *id == EDGE).enumerate() {
            // Every other part is what lies between two divided pieces.
            if number % 2 == 0 {
                out.extend_from_slice(part);
                continue;
            }
            for id in &mut *part {
                *id = phrases.symbol_of[*id as usize];
            }
            phrases.join(tables, part, joiner, &mut state.scratch);
            let symbols = joiner.done.iter();
            out.extend(symbols.map(|symbol| tables.ids[*symbol as usize]));
        }
        joiner.words = words;
    }
}

/// The kind of an ASCII character; 0 for white space and for parts of other characters.
fn kind(byte: u8) -> u64 {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' => LETTER,
        b'0'..=b'9' => DIGIT,
        b'\t'..=b'\r' | b' ' | 0x80.. => 0,
        _ => SIGN,
    }
}
