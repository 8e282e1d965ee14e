//! What a loader hands over: tokens, merges, and how text becomes the first symbols.

use super::Tokens;
use crate::hash::mix;

/// A vocabulary as found in a file, before anything is checked.
#[derive(Debug, Clone)]
pub struct VocabSpec {
    /// Tokens that merges start from or produce, with their ids; holes between ids are fine.
    ///
    /// With [`Alphabet::Bytes`] these are raw bytes; with [`Alphabet::Chars`] they are UTF-8 in which
    /// the word marker `▁` is written as a space, so that text needs no rewriting before a lookup.
    pub tokens: Tokens,
    /// Tokens that decode but never come out of a merge: added and special tokens, byte tokens.
    pub extra: Vec<(Vec<u8>, u32)>,
    /// Which pairs merge, and in which order.
    pub merges: Merges,
    /// What the first symbols of a piece are.
    pub alphabet: Alphabet,
    /// The token for bytes or characters that are not tokens; without it they are dropped.
    pub unknown: Option<Unknown>,
    /// Whether a piece that is a token as a whole becomes that token without merging (`tiktoken` always does this).
    pub ignore_merges: bool,
}

/// The order of merges, in one of the two forms that vocabularies come in.
#[derive(Debug, Clone)]
pub enum Merges {
    /// Pairs of token ids in rank order; the product is the token that spells both together.
    List(MergeList),
    /// Token ids in order of priority; any two neighbours that together spell such a token may merge.
    Ranked(Vec<u32>),
}

type Pairs = Vec<(u32, u32)>;

/// Pairs of token ids in rank order, and their products if a loader has already looked them up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeList {
    pairs: Pairs,
    products: Vec<u32>,
}

impl MergeList {
    /// Creates a list whose products are known; if a pair is listed twice, the arguments come back as the error.
    pub fn checked(pairs: Pairs, products: Vec<u32>) -> Result<Self, (Pairs, Vec<u32>)> {
        if pairs.len() == products.len() && !has_twins(&pairs) {
            Ok(Self { pairs, products })
        } else {
            Err((pairs, products))
        }
    }

    /// Returns the pairs.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Returns the product of each pair, if it is known that there is one and that no pair is listed twice.
    pub fn products(&self) -> Option<&[u32]> {
        (self.products.len() == self.pairs.len()).then_some(&self.products)
    }
}

fn has_twins(pairs: &[(u32, u32)]) -> bool {
    const EMPTY: u64 = u64::MAX;
    let mut slots = vec![EMPTY; (pairs.len() * 2 + 2).next_power_of_two()];
    let mask = slots.len() - 1;
    for (left, right) in pairs {
        let key = u64::from(*left) << 32 | u64::from(*right);
        let mut slot = mix(key, 0) as usize & mask;
        while slots[slot] != EMPTY {
            if slots[slot] == key {
                return true;
            }
            slot = (slot + 1) & mask;
        }
        slots[slot] = key;
    }
    false
}

impl From<Pairs> for MergeList {
    fn from(pairs: Pairs) -> Self {
        Self { pairs, products: Vec::new() }
    }
}

/// What a piece is made of before the first merge.
#[derive(Debug, Clone)]
pub enum Alphabet {
    /// Its bytes.
    Bytes,
    /// Its characters, as `SentencePiece` does it.
    Chars {
        /// Ids of the 256 byte tokens, for characters that are not tokens themselves.
        byte_tokens: Option<Box<[u32; 256]>>,
    },
}

/// The token for text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// Its id.
    pub id: u32,
    /// Whether one such token covers a whole run of such bytes or characters.
    pub fused: bool,
}
