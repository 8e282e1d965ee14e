//! A whole encoder: pieces in, ids out.

use std::collections::HashMap;

use super::canonical;
use super::pairs::PairTable;
use super::symbols::Symbols;
use super::words::Words;
use super::{EncodeState, VocabSpec, Vocabulary, WordCut, NONE};
use crate::Result;

/// A source of pieces: the ends of the next ones, as byte offsets into the text, a batch at a time.
pub trait Pieces {
    /// Fills `ends` from its start and says how many were written; 0 means the text is done.
    fn fill(&mut self, ends: &mut [u32]) -> usize;
}

/// How many pieces are fetched at once.
const BATCH: usize = 256;

/// An exact byte-pair encoder; immutable, shared by threads.
pub struct Bpe {
    vocabulary: Vocabulary,
    symbols: Symbols,
    pairs: PairTable,
    /// Token id of each symbol.
    ids: Vec<u32>,
    /// Tokens that merges do not make, found only as whole pieces.
    whole: HashMap<Vec<u8>, u32>,
    /// Where text without a pre-tokenizer may be cut into words.
    word_cut: WordCut,
}

impl Bpe {
    /// Checks a vocabulary and builds the tables.
    pub fn new(spec: VocabSpec) -> Result<Self> {
        let vocabulary = Vocabulary::new(&spec.tokens, &spec.extra)?;
        let (symbols, mut ids) = Symbols::new(&spec.alphabet, &spec.tokens, &vocabulary)?;
        let mut mergeable = vec![false; vocabulary.id_limit()];
        for (_, id) in &spec.tokens {
            mergeable[*id as usize] = true;
        }
        let splits = canonical::splits(&spec.merges, &vocabulary, &symbols, &ids, &mergeable)?;
        let mut symbol_of = vec![NONE; vocabulary.id_limit()];
        ids.extend(splits.iter().map(|split| split.product));
        for (symbol, id) in ids.iter().enumerate() {
            symbol_of[*id as usize] = symbol as u32;
        }
        let mut pairs = PairTable::with_room(splits.len());
        for split in &splits {
            let [left, right, product] =
                [split.left, split.right, split.product].map(|id| symbol_of[id as usize]);
            pairs.insert(left, right, product);
        }
        let mut whole = HashMap::new();
        if spec.ignore_merges {
            let unmade = |(token, id): &(Vec<u8>, u32)| {
                symbol_of[*id as usize] == NONE && vocabulary.id_of(token) == Some(*id)
            };
            whole.extend(spec.tokens.into_iter().filter(unmade));
        }
        let crosses_words = splits.iter().any(|split| {
            let starts = vocabulary
                .bytes_of(split.right)
                .is_some_and(|right| right.starts_with(b" "));
            let ends = vocabulary
                .bytes_of(split.left)
                .is_some_and(|left| left.ends_with(b" "));
            starts && !ends
        });
        let cut = if crosses_words || !symbols.keeps_words_apart() {
            WordCut::Never
        } else {
            WordCut::Runs
        };
        Ok(Self {
            vocabulary,
            symbols,
            pairs,
            ids,
            whole,
            word_cut: cut,
        })
    }

    /// All tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Appends the ids of `text`, whose pieces come from `pieces`.
    pub fn encode_pieces(
        &self,
        mut pieces: impl Pieces,
        text: &str,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let mut ends = [0; BATCH];
        let mut start = 0;
        loop {
            let count = pieces.fill(&mut ends);
            if count == 0 {
                return;
            }
            for end in &ends[..count] {
                let end = *end as usize;
                self.encode_piece(&text.as_bytes()[start..end], state, out);
                start = end;
            }
        }
    }

    /// Appends the ids of SentencePiece-style text, in which the word marker is written as a space.
    pub fn encode_words(
        &self,
        text: &str,
        cut: WordCut,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) {
        let cut = if cut == WordCut::Runs {
            self.word_cut
        } else {
            cut
        };
        self.encode_pieces(Words::new(text, cut), text, state, out);
    }

    fn encode_piece(&self, piece: &[u8], state: &mut EncodeState, out: &mut Vec<u32>) {
        if let Some(id) = self.whole.get(piece) {
            out.push(*id);
            return;
        }
        let scratch = &mut state.scratch;
        scratch.symbols.clear();
        self.symbols.of_piece(piece, &mut scratch.symbols);
        scratch.merge(&self.pairs);
        out.extend(
            scratch
                .symbols
                .iter()
                .map(|symbol| self.ids[*symbol as usize]),
        );
    }
}
