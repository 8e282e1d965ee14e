//! Finds a token by its bytes, in a flat buffer of tokens.

use crate::bpe::Tokens;
use crate::hash::hash_bytes;

const EMPTY: u64 = u64::MAX;

/// Open addressing; a slot has half of the hash next to the index, so that few strings are compared.
pub(super) struct Index {
    slots: Vec<u64>,
}

impl Index {
    /// Indexes the tokens; the error is the places of two tokens with the same bytes.
    pub(super) fn new(tokens: &Tokens) -> Result<Self, (usize, usize)> {
        let mut index = Self { slots: vec![EMPTY; (tokens.len() * 2 + 2).next_power_of_two()] };
        for (place, (token, _)) in tokens.iter().enumerate() {
            let hash = hash_bytes(token);
            let slot = index.slot_of(tokens, token, hash);
            if index.slots[slot] != EMPTY {
                return Err((index.slots[slot] as u32 as usize, place));
            }
            index.slots[slot] = (hash & !u64::from(u32::MAX)) | place as u64;
        }
        Ok(index)
    }

    /// Returns the id of the token with exactly these bytes.
    pub(super) fn get(&self, tokens: &Tokens, token: &[u8]) -> Option<u32> {
        let slot = self.slots[self.slot_of(tokens, token, hash_bytes(token))];
        (slot != EMPTY).then(|| tokens.ids()[slot as u32 as usize])
    }

    #[inline(always)]
    fn slot_of(&self, tokens: &Tokens, token: &[u8], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            let same = (entry ^ hash) >> 32 == 0;
            if entry == EMPTY || (same && tokens.at(entry as u32 as usize) == token) {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }
}
