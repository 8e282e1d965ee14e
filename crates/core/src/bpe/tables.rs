//! The tables of an encoder, and merging of one piece.

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use super::canonical;
use super::gaps::Gaps;
use super::merge::MergeScratch;
use super::merge_together::Word;
use super::pairs::PairTable;
use super::phrases::Phrases;
use super::symbols::Symbols;
use super::{Merges, Unknown, VocabSpec, Vocabulary, WordCut, NONE};
use crate::hash::BytesHasher;
use crate::{Error, Result};

/// Tokens by their bytes.
type Whole = HashMap<Vec<u8>, u32, BuildHasherDefault<BytesHasher>>;

/// Bytes of a long piece that are merged at a time.
const WINDOW: usize = if cfg!(test) { 48 } else { 1024 };
/// Tokens at the end of a window that are merged again with what follows.
const UNSURE: usize = 2;
/// Windows that may fail before a piece is merged as a whole; each window that it has earns another.
const PATIENCE: usize = 4;

/// Everything that decides ids; immutable.
pub(crate) struct Tables {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) symbols: Symbols,
    pub(crate) pairs: PairTable,
    /// Product of each pair of bytes, so that the first pass over a piece needs no hashing.
    byte_pairs: Vec<u32>,
    /// Bytes that are not tokens.
    pub(crate) gaps: Option<Gaps>,
    /// The token for text that is not a token.
    pub(crate) unknown: Option<Unknown>,
    /// Token id of each symbol.
    pub(crate) ids: Vec<u32>,
    /// The canonical split of each symbol; the alphabet has none.
    pub(crate) splits: Vec<(u32, u32)>,
    /// Tokens that are not made by merges and are found only as whole pieces.
    pub(crate) whole: Whole,
    /// Where text without a pre-tokenizer may be cut into words.
    pub(crate) word_cut: WordCut,
    /// How long pieces are divided into words, if tokens span them.
    pub(crate) phrases: Option<Phrases>,
    /// Symbols that rank after a product of theirs, in order; most vocabularies have none.
    late_parts: Vec<u32>,
}

impl Tables {
    /// Checks a vocabulary and builds the tables.
    pub(crate) fn new(spec: &VocabSpec) -> Result<Self> {
        let vocabulary = Vocabulary::new(&spec.tokens, &spec.extra)?;
        let (symbols, mut ids) =
            Symbols::new(&spec.alphabet, spec.unknown, &spec.tokens, &vocabulary);
        let mut mergeable = vec![false; vocabulary.id_limit()];
        for id in spec.tokens.ids() {
            mergeable[*id as usize] = true;
        }
        let found = canonical::splits(&spec.merges, &vocabulary, &symbols, &ids, &mergeable)?;
        let mut splits = vec![(NONE, NONE); ids.len()];
        ids.extend(found.iter().map(|split| split.product));
        let mut symbol_of = vec![NONE; vocabulary.id_limit()];
        // In reverse, so that a letter takes precedence over a stand-in of the same id: Gemma's tab is both.
        for (symbol, id) in ids.iter().enumerate().rev() {
            symbol_of[*id as usize] = symbol as u32;
        }
        splits.extend(
            found
                .iter()
                .map(|split| (symbol_of[split.left as usize], symbol_of[split.right as usize])),
        );
        let mut pairs = PairTable::with_room(found.len());
        for (product, (left, right)) in splits.iter().enumerate().skip(splits.len() - found.len()) {
            pairs.insert(*left, *right, product as u32);
        }
        let mut whole = HashMap::default();
        if spec.ignore_merges {
            let unmade = |(token, id): &(&[u8], u32)| {
                symbol_of[*id as usize] == NONE && vocabulary.id_of(token) == Some(*id)
            };
            let found = spec.tokens.iter().filter(unmade);
            whole.extend(found.map(|(token, id)| (token.to_vec(), id)));
        }
        let late_parts = late_parts(&splits);
        let byte_pairs = byte_pairs(&symbols, &pairs);
        let gaps = Gaps::new(&symbols, spec.unknown);
        if gaps.is_some() || !symbols.is_local() {
            refuse_merged(spec.unknown, &found)?;
        }
        if let (Some(gaps), Merges::Ranked(_)) = (&gaps, &spec.merges) {
            return Err(gaps.refuse());
        }
        let mut tables = Self {
            vocabulary,
            symbols,
            pairs,
            byte_pairs,
            gaps,
            unknown: spec.unknown,
            ids,
            splits,
            whole,
            word_cut: WordCut::Never,
            phrases: None,
            late_parts,
        };
        tables.phrases = Phrases::new(&tables, symbol_of)?;
        if tables.symbols.keeps_words_apart() && !tables.merges_cross_words() {
            tables.word_cut = WordCut::Runs;
        }
        Ok(tables)
    }

    /// Returns whether some merge joins the end of a word with the space of the next.
    fn merges_cross_words(&self) -> bool {
        let products = self.splits.iter().filter(|split| split.0 != NONE);
        products.into_iter().any(|(left, right)| {
            self.bytes_of(*right).starts_with(b" ") && !self.bytes_of(*left).ends_with(b" ")
        })
    }

    /// Returns whether every product ranks after both of its parts, so that merges happen in rank order.
    pub(crate) fn ranks_rise(&self) -> bool {
        self.late_parts.is_empty()
    }

    /// Returns whether text becomes this symbol: byte tokens and the unknown token only stand in for text.
    pub(crate) fn is_made(&self, symbol: u32) -> bool {
        self.splits[symbol as usize].0 != NONE || self.symbols.is_letter(symbol)
    }

    /// Returns whether ASCII pieces are cut too: that is cheap to prove only if symbols are whole characters.
    pub(crate) fn cuts_ascii(&self) -> bool {
        matches!(self.symbols, Symbols::Chars(_))
    }

    /// Returns the bytes of a symbol.
    pub(crate) fn bytes_of(&self, symbol: u32) -> &[u8] {
        self.vocabulary.bytes_of(self.ids[symbol as usize]).unwrap_or_default()
    }

    /// Appends the exact ids of a piece, by merging alone.
    pub(crate) fn merge(&self, piece: &[u8], scratch: &mut MergeScratch, out: &mut Vec<u32>) {
        if piece.len() <= WINDOW || !self.merge_in_windows(piece, scratch) {
            self.merge_whole(piece, scratch);
        }
        let ids = scratch.symbols.iter();
        out.extend(ids.map(|symbol| self.ids[*symbol as usize]));
    }

    pub(super) fn merge_whole(&self, piece: &[u8], scratch: &mut MergeScratch) {
        scratch.symbols.clear();
        self.symbols.of_piece(piece, &mut scratch.symbols);
        scratch.merge_sweeping(&self.pairs, &self.late_parts);
    }

    /// Merges a long piece window by window, in linear time; returns `false` if that does not work out.
    ///
    /// If every product ranks after its parts, a sequence of tokens is the result of merging exactly when every two
    /// neighbours are the result of merging those two alone. Neighbours in a window are. Where windows meet, it is
    /// checked, and the window starts one token earlier if they are not.
    fn merge_in_windows(&self, piece: &[u8], scratch: &mut MergeScratch) -> bool {
        if !self.ranks_rise() || self.letters().is_none() {
            return false;
        }
        let split = |symbol: u32| self.splits[symbol as usize];
        let (mut done, mut at, mut failed) = (Vec::new(), 0, 0);
        while at < piece.len() {
            let end = piece.len().min(at + WINDOW);
            self.merge_whole(&piece[at..end], scratch);
            let found = &scratch.symbols;
            if let Some(&last) = done.last() {
                if !canonical::stay_apart(&self.pairs, split, last, found[0]) {
                    done.pop();
                    at -= self.bytes_of(last).len();
                    failed += 1;
                    if failed > PATIENCE + at / WINDOW {
                        return false;
                    }
                    continue;
                }
            }
            // The text after a window may still change its last tokens.
            let unsure = if end == piece.len() { 0 } else { UNSURE };
            let Some(sure) = found.len().checked_sub(unsure).filter(|&sure| sure > 0) else {
                return false;
            };
            let bytes = found[..sure].iter().map(|&symbol| self.bytes_of(symbol).len());
            at += bytes.sum::<usize>();
            done.extend_from_slice(&found[..sure]);
        }
        scratch.symbols = done;
        true
    }

    /// Starts `word` with a piece of at most [`MOST`] bytes, before any merge.
    pub(crate) fn start(&self, piece: &[u8], room: &mut Vec<u32>, word: &mut Word) {
        if let Some(letters) = self.letters() {
            return word.start(self, letters, piece);
        }
        room.clear();
        self.symbols.of_piece(piece, room);
        word.start_symbols(&self.pairs, room);
    }

    /// Returns the letters of an alphabet of bytes.
    #[inline(always)]
    pub(crate) fn letters(&self) -> Option<&[u32; 256]> {
        match &self.symbols {
            Symbols::Bytes(letters) => Some(letters),
            Symbols::Chars(_) => None,
        }
    }

    /// Returns the product of two bytes, or [`NONE`].
    #[inline(always)]
    pub(crate) fn byte_pair(&self, left: u8, right: u8) -> u32 {
        self.byte_pairs[usize::from(left) << 8 | usize::from(right)]
    }
}

/// Returns the parts of products that rank before them.
fn late_parts(splits: &[(u32, u32)]) -> Vec<u32> {
    let products = splits.iter().enumerate().filter(|(_, split)| split.0 != NONE);
    let late = products.flat_map(|(product, (left, right))| {
        [*left, *right].into_iter().filter(move |part| *part >= product as u32)
    });
    late.collect::<BTreeSet<_>>().into_iter().collect()
}

/// HF merges the unknown token like any other; here it never merges, so such vocabularies are refused.
fn refuse_merged(unknown: Option<Unknown>, splits: &[canonical::Split]) -> Result<()> {
    let Some(Unknown { id, .. }) = unknown else {
        return Ok(());
    };
    if splits.iter().any(|split| split.left == id || split.right == id) {
        return Err(Error::Tokenizer(format!("the unknown token (id {id}) is part of a merge")));
    }
    Ok(())
}

fn byte_pairs(symbols: &Symbols, pairs: &PairTable) -> Vec<u32> {
    let Symbols::Bytes(symbols) = symbols else {
        return Vec::new();
    };
    let mut products = vec![NONE; 1 << 16];
    for (at, product) in products.iter_mut().enumerate() {
        let (left, right) = (symbols[at >> 8], symbols[at & 0xFF]);
        if left != NONE && right != NONE {
            *product = pairs.get(left, right);
        }
    }
    products
}
