//! Token bytes by id and id by token bytes.

use super::{Tokens, NONE};
use crate::hash::hash_bytes;
use crate::{Error, Result};

/// Ids at or above this are refused: tables are indexed by id, and a stray id of 2^32-1 must not become
/// a giant allocation. The largest production vocabularies end near 2^18.
pub(crate) const ID_LIMIT: u32 = 1 << 24;

/// Where a token's bytes lie in the arena; `len == NONE` marks an id that no token has.
#[derive(Clone, Copy)]
struct Entry {
    start: u32,
    len: u32,
}

/// All tokens of a tokenizer: `bytes_of(15339) -> b"hello"`, `id_of(b"hello") -> 15339`.
pub struct Vocabulary {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// Open addressing over hashes of token bytes; only tokens that text can become are in it.
    slots: Vec<u32>,
    count: usize,
    /// Whether some bytes have more than one id.
    twins: bool,
}

impl Vocabulary {
    /// Builds both directions. `extra` tokens decode but are not found by their bytes unless the
    /// bytes are otherwise unknown.
    pub(crate) fn new(tokens: &Tokens, extra: &[(Vec<u8>, u32)]) -> Result<Self> {
        let extras = || extra.iter().map(|(token, id)| (&token[..], *id));
        let limit = tokens
            .ids()
            .iter()
            .copied()
            .chain(extras().map(|(_, id)| id))
            .max()
            .map_or(0, |id| u64::from(id) + 1);
        if limit > u64::from(ID_LIMIT) {
            return Err(Error::Tokenizer(format!(
                "token id {} is too large: ids must be below {ID_LIMIT}; renumber the vocabulary",
                limit - 1
            )));
        }
        let bytes = tokens.bytes().len() + extras().map(|(token, _)| token.len()).sum::<usize>();
        if bytes > u32::MAX as usize {
            return Err(Error::Tokenizer(format!(
                "the tokens hold {bytes} bytes together, expected less than 4 GiB"
            )));
        }
        let count = tokens.len() + extra.len();
        let mut vocabulary = Self {
            arena: Vec::with_capacity(bytes),
            entries: vec![Entry { start: 0, len: NONE }; limit as usize],
            slots: vec![NONE; (count * 2 + 2).next_power_of_two()],
            count,
            twins: false,
        };
        for (token, id) in tokens.iter().chain(extras()) {
            vocabulary.add(token, id)?;
        }
        Ok(vocabulary)
    }

    fn add(&mut self, token: &[u8], id: u32) -> Result<()> {
        let entry = &mut self.entries[id as usize];
        if entry.len != NONE {
            let first = *entry;
            let first = &self.arena[first.start as usize..][..first.len as usize];
            return Err(Error::Tokenizer(format!(
                "token id {id} is given twice, to {:?} and to {:?}; ids must be unique",
                String::from_utf8_lossy(first),
                String::from_utf8_lossy(token)
            )));
        }
        *entry = Entry { start: self.arena.len() as u32, len: token.len() as u32 };
        self.arena.extend_from_slice(token);
        let slot = self.slot_of(token);
        if self.slots[slot] == NONE {
            self.slots[slot] = id;
        } else {
            self.twins = true;
        }
        Ok(())
    }

    /// Returns the slot that holds `token`, or the empty one where it belongs.
    fn slot_of(&self, token: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash_bytes(token) as usize & mask;
        while self.slots[slot] != NONE && self.bytes_of(self.slots[slot]) != Some(token) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Returns the bytes of a token, or `None` for an id in a hole or beyond the end.
    pub fn bytes_of(&self, id: u32) -> Option<&[u8]> {
        let entry = self.entries.get(id as usize)?;
        if entry.len == NONE {
            return None;
        }
        self.arena.get(entry.start as usize..)?.get(..entry.len as usize)
    }

    /// Returns the id of the token with exactly these bytes.
    pub fn id_of(&self, token: &[u8]) -> Option<u32> {
        let id = self.slots[self.slot_of(token)];
        (id != NONE).then_some(id)
    }

    /// Returns one more than the largest id.
    pub fn id_limit(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether every token is found by its bytes.
    pub(crate) fn is_unique(&self) -> bool {
        !self.twins
    }

    /// Returns how many ids have a token.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no tokens at all.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
