//! The tables of an encoder, and the exact ids of one piece from them.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::backtrack;
use super::canonical;
use super::merge::MergeScratch;
use super::merge_short::{self, CAPACITY};
use super::pairs::PairTable;
use super::symbols::Symbols;
use super::trie::Trie;
use super::{VocabSpec, Vocabulary, WordCut, NONE};
use crate::Result;

/// Everything that decides ids; immutable.
pub(crate) struct Tables {
    pub(crate) vocabulary: Vocabulary,
    pub(crate) symbols: Symbols,
    pub(crate) pairs: PairTable,
    /// Product of each pair of bytes: the first look at a piece needs no hashing.
    byte_pairs: Vec<u32>,
    /// Token id of each symbol.
    pub(crate) ids: Vec<u32>,
    /// The canonical split of each symbol; the alphabet has none.
    pub(crate) splits: Vec<(u32, u32)>,
    /// Tokens that merges do not make, found only as whole pieces.
    pub(crate) whole: HashMap<Vec<u8>, u32>,
    /// Where text without a pre-tokenizer may be cut into words.
    pub(crate) word_cut: WordCut,
    /// What long pieces need, built when the first one arrives; `None` where ranks do not rise.
    trie: OnceLock<Option<Trie>>,
}

impl Tables {
    /// Checks a vocabulary and builds the tables.
    pub(crate) fn new(spec: VocabSpec) -> Result<Self> {
        let vocabulary = Vocabulary::new(&spec.tokens, &spec.extra)?;
        let (symbols, mut ids) = Symbols::new(&spec.alphabet, &spec.tokens, &vocabulary)?;
        let mut mergeable = vec![false; vocabulary.id_limit()];
        for (_, id) in &spec.tokens {
            mergeable[*id as usize] = true;
        }
        let found = canonical::splits(&spec.merges, &vocabulary, &symbols, &ids, &mergeable)?;
        let mut splits = vec![(NONE, NONE); ids.len()];
        ids.extend(found.iter().map(|split| split.product));
        let mut symbol_of = vec![NONE; vocabulary.id_limit()];
        for (symbol, id) in ids.iter().enumerate() {
            symbol_of[*id as usize] = symbol as u32;
        }
        splits.extend(found.iter().map(|split| {
            (
                symbol_of[split.left as usize],
                symbol_of[split.right as usize],
            )
        }));
        let mut pairs = PairTable::with_room(found.len());
        for (product, (left, right)) in splits.iter().enumerate().skip(splits.len() - found.len()) {
            pairs.insert(*left, *right, product as u32);
        }
        let mut whole = HashMap::new();
        if spec.ignore_merges {
            let unmade = |(token, id): &(Vec<u8>, u32)| {
                symbol_of[*id as usize] == NONE && vocabulary.id_of(token) == Some(*id)
            };
            whole.extend(spec.tokens.into_iter().filter(unmade));
        }
        let byte_pairs = byte_pairs(&symbols, &pairs);
        let mut tables = Self {
            vocabulary,
            symbols,
            pairs,
            byte_pairs,
            ids,
            splits,
            whole,
            word_cut: WordCut::Never,
            trie: OnceLock::new(),
        };
        if tables.symbols.keeps_words_apart() && !tables.merges_cross_words() {
            tables.word_cut = WordCut::Runs;
        }
        Ok(tables)
    }

    /// Whether some merge joins the end of a word with the space of the next.
    fn merges_cross_words(&self) -> bool {
        let products = self.splits.iter().filter(|split| split.0 != NONE);
        products.into_iter().any(|(left, right)| {
            self.bytes_of(*right).starts_with(b" ") && !self.bytes_of(*left).ends_with(b" ")
        })
    }

    /// Whether every product ranks after both of its parts, so that merges happen in rank order.
    pub(crate) fn ranks_rise(&self) -> bool {
        let rises = |(product, (left, right)): (usize, &(u32, u32))| {
            *left == NONE || (*left < product as u32 && *right < product as u32)
        };
        self.splits.iter().enumerate().all(rises)
    }

    fn trie(&self) -> Option<&Trie> {
        self.trie
            .get_or_init(|| self.ranks_rise().then(|| Trie::new(self)))
            .as_ref()
    }

    /// Whether text becomes this symbol: byte tokens and the unknown token only stand in for text.
    pub(crate) fn is_made(&self, symbol: u32) -> bool {
        self.splits[symbol as usize].0 != NONE || self.symbols.is_letter(symbol)
    }

    /// The bytes of a symbol.
    pub(crate) fn bytes_of(&self, symbol: u32) -> &[u8] {
        self.vocabulary
            .bytes_of(self.ids[symbol as usize])
            .unwrap_or_default()
    }

    /// Appends the exact ids of a piece, by merging alone.
    pub(crate) fn merge(&self, piece: &[u8], scratch: &mut MergeScratch, out: &mut Vec<u32>) {
        if let Symbols::Bytes(symbols) = &self.symbols {
            if piece.len() <= CAPACITY {
                return self.merge_bytes(symbols, piece, out);
            }
        }
        scratch.symbols.clear();
        self.symbols.of_piece(piece, &mut scratch.symbols);
        if scratch.symbols.len() <= CAPACITY {
            return self.merge_few(&scratch.symbols, out);
        }
        if let Some(trie) = self.trie() {
            scratch.symbols.clear();
            if backtrack::encode(self, trie, piece, &mut scratch.symbols) {
                out.extend(
                    scratch
                        .symbols
                        .iter()
                        .map(|symbol| self.ids[*symbol as usize]),
                );
                return;
            }
            scratch.symbols.clear();
            self.symbols.of_piece(piece, &mut scratch.symbols);
        }
        scratch.merge(&self.pairs);
        out.extend(
            scratch
                .symbols
                .iter()
                .map(|symbol| self.ids[*symbol as usize]),
        );
    }

    fn merge_bytes(&self, symbols: &[u32; 256], piece: &[u8], out: &mut Vec<u32>) {
        let mut first = [0; CAPACITY];
        let mut products = [NONE; CAPACITY];
        for (symbol, byte) in first.iter_mut().zip(piece) {
            *symbol = symbols[usize::from(*byte)];
        }
        for (product, pair) in products.iter_mut().zip(piece.windows(2)) {
            *product = self.byte_pairs[usize::from(pair[0]) << 8 | usize::from(pair[1])];
        }
        let count = merge_short::merge(&self.pairs, &mut first, &mut products, piece.len());
        out.extend(
            first[..count]
                .iter()
                .map(|symbol| self.ids[*symbol as usize]),
        );
    }

    fn merge_few(&self, symbols: &[u32], out: &mut Vec<u32>) {
        let mut first = [0; CAPACITY];
        let mut products = [NONE; CAPACITY];
        first[..symbols.len()].copy_from_slice(symbols);
        for (product, pair) in products.iter_mut().zip(symbols.windows(2)) {
            *product = self.pairs.get(pair[0], pair[1]);
        }
        let count = merge_short::merge(&self.pairs, &mut first, &mut products, symbols.len());
        out.extend(
            first[..count]
                .iter()
                .map(|symbol| self.ids[*symbol as usize]),
        );
    }
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
