//! The vocabulary under construction: bytes by id, id by bytes, and the merges that made each token.

use super::hash;
use crate::spelling::prints;

const FREE: u32 = u32::MAX;

/// Byte values in the order in which Hugging Face numbers them: the bytes that print as themselves in
/// GPT-2's alphabet, then the others. `huggingface` ties compare ids, so the order matters.
pub fn byte_order() -> [u8; 256] {
    let mut order = [0u8; 256];
    let themselves = (0..=255u8).filter(|&byte| prints(byte));
    let others = (0..=255u8).filter(|&byte| !prints(byte));
    for (place, byte) in order.iter_mut().zip(themselves.chain(others)) {
        *place = byte;
    }
    order
}

/// The tokens that training begins with, the single bytes in [`byte_order`] or a whole vocabulary, and those that it
/// makes; each of these joins two earlier ones.
pub struct TokenList {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    lens: Vec<u32>,
    /// Open addressing over `ids`, always at most half full.
    index: Vec<u32>,
    scratch: Vec<u8>,
}

impl TokenList {
    /// Returns the 256 single bytes, with room for `extra` more tokens.
    pub fn new(extra: usize) -> Self {
        let mut tokens = Self::with_room(256 + extra);
        for byte in byte_order() {
            tokens.scratch.clear();
            tokens.scratch.push(byte);
            tokens.intern_scratch(false);
        }
        tokens
    }

    /// Returns the tokens of a vocabulary by id, with room for `extra` more; an unused id is empty.
    pub fn from_tokens<'a>(base: impl ExactSizeIterator<Item = &'a [u8]>, extra: usize) -> Self {
        let mut tokens = Self::with_room(base.len() + extra);
        for token in base {
            tokens.scratch.clear();
            tokens.scratch.extend_from_slice(token);
            tokens.intern_scratch(false);
        }
        tokens
    }

    fn with_room(size: usize) -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(size),
            lens: Vec::with_capacity(size),
            index: vec![FREE; (size * 2).next_power_of_two()],
            scratch: Vec::new(),
        }
    }

    /// Returns the first token with these bytes.
    pub fn find(&self, bytes: &[u8]) -> Option<u32> {
        let mask = self.index.len() - 1;
        let mut at = (hash::of_piece(bytes) >> 20) as usize & mask;
        while self.index[at] != FREE {
            if self.get(self.index[at]) == bytes {
                return Some(self.index[at]);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Returns how many tokens there are.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of token `id`.
    #[inline]
    pub fn get(&self, id: u32) -> &[u8] {
        let end = self.ends[id as usize] as usize;
        &self.bytes[end - self.lens[id as usize] as usize..end]
    }

    /// Length in bytes of token `id`.
    #[inline(always)]
    pub fn len_of(&self, id: u32) -> u32 {
        self.lens[id as usize]
    }

    /// Returns the id of `left + right`, and whether it is new: if `unify`, two splits of the same bytes are one
    /// token.
    pub fn join(&mut self, left: u32, right: u32, unify: bool) -> (u32, bool) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.get(left));
        scratch.extend_from_slice(self.get(right));
        self.scratch = scratch;
        self.intern_scratch(unify)
    }

    fn intern_scratch(&mut self, unify: bool) -> (u32, bool) {
        let wanted = hash::of_piece(&self.scratch);
        let mask = self.index.len() - 1;
        let mut at = (wanted >> 20) as usize & mask;
        while self.index[at] != FREE {
            if unify && self.get(self.index[at]) == self.scratch {
                return (self.index[at], false);
            }
            at = (at + 1) & mask;
        }
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(&self.scratch);
        self.ends.push(self.bytes.len() as u64);
        self.lens.push(self.scratch.len() as u32);
        self.index[at] = id;
        if self.ends.len() * 2 > self.index.len() {
            self.grow();
        }
        (id, true)
    }

    fn grow(&mut self) {
        let mask = self.index.len() * 2 - 1;
        let mut index = vec![FREE; mask + 1];
        for id in 0..self.ends.len() as u32 {
            let bytes = self.get(id);
            let mut at = (hash::of_piece(bytes) >> 20) as usize & mask;
            while index[at] != FREE {
                at = (at + 1) & mask;
            }
            index[at] = id;
        }
        self.index = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_is_a_permutation_that_starts_with_what_prints() {
        let order = byte_order();
        let mut sorted = order;
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &b)| i == b as usize));
        assert_eq!((order[0], order[93], order[188]), (b'!', b'~', 0));
    }

    #[test]
    fn two_splits_of_the_same_bytes_are_one_token() {
        let mut tokens = TokenList::new(0);
        let (aa, fresh) = tokens.join(10, 10, true);
        assert!(fresh);
        let (left, _) = tokens.join(aa, 10, true);
        let (right, fresh) = tokens.join(10, aa, true);
        assert_eq!((left, fresh), (right, false));
        for id in 0..200 {
            tokens.join(id, left, true);
        }
        assert_eq!(tokens.join(10, aa, true), (left, false));
    }
}
