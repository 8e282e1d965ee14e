//! The longest token that starts a text, and the next shorter one after it.

use super::tables::Tables;
use super::NONE;
use crate::hash::SPREAD;

const EMPTY: u64 = u64::MAX;

/// A byte trie of all tokens that merges make; edges are hashed, the first two levels are an array.
pub(crate) struct Trie {
    /// Node after two bytes.
    second: Vec<u32>,
    /// `node, byte, child` packed in one word.
    edges: Vec<u64>,
    shift: u32,
    /// Symbol that ends at each node.
    symbols: Vec<u32>,
    /// Symbol of each single byte.
    single: [u32; 256],
    /// By symbol: its longest proper prefix that is a token.
    pub(crate) shorter: Vec<u32>,
}

impl Trie {
    /// A node and a byte must fit in one number of 32 bits.
    pub(crate) const MOST_NODES: u64 = 1 << 24;

    pub(crate) fn new(tables: &Tables) -> Self {
        let made = |symbol: usize| tables.is_made(symbol as u32);
        let all = 0..tables.splits.len();
        let bytes: usize = all
            .clone()
            .map(|symbol| tables.bytes_of(symbol as u32).len())
            .sum();
        let slots = (bytes * 2).next_power_of_two().max(64);
        let mut trie = Self {
            second: vec![NONE; 1 << 16],
            edges: vec![EMPTY; slots],
            shift: 64 - slots.trailing_zeros(),
            symbols: Vec::new(),
            single: [NONE; 256],
            shorter: vec![NONE; all.len()],
        };
        for symbol in all.clone().filter(|symbol| made(*symbol)) {
            trie.insert(tables.bytes_of(symbol as u32), symbol as u32);
        }
        for symbol in all.filter(|symbol| made(*symbol)) {
            let token = tables.bytes_of(symbol as u32);
            trie.shorter[symbol] = trie.longest(&token[..token.len() - 1]);
        }
        trie
    }

    fn add_node(&mut self) -> u32 {
        self.symbols.push(NONE);
        self.symbols.len() as u32 - 1
    }

    fn insert(&mut self, token: &[u8], symbol: u32) {
        let [first, rest @ ..] = token else { return };
        let [second, rest @ ..] = rest else {
            self.single[usize::from(*first)] = symbol;
            return;
        };
        let start = usize::from(*first) << 8 | usize::from(*second);
        if self.second[start] == NONE {
            self.second[start] = self.add_node();
        }
        let mut node = self.second[start];
        for byte in rest {
            node = self.child_or_new(node, *byte);
        }
        self.symbols[node as usize] = symbol;
    }

    fn child_or_new(&mut self, node: u32, byte: u8) -> u32 {
        let mask = self.edges.len() - 1;
        let key = Self::key(node, byte);
        let mut slot = self.slot_of(key);
        while self.edges[slot] != EMPTY {
            if self.edges[slot] >> 32 == key {
                return self.edges[slot] as u32;
            }
            slot = (slot + 1) & mask;
        }
        let child = self.add_node();
        self.edges[slot] = (key << 32) | u64::from(child);
        child
    }

    /// There are fewer nodes than [`Self::MOST_NODES`]: the caller has checked.
    #[inline(always)]
    fn key(node: u32, byte: u8) -> u64 {
        (u64::from(node) << 8) | u64::from(byte)
    }

    #[inline(always)]
    fn slot_of(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    #[inline(always)]
    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let mask = self.edges.len() - 1;
        let key = Self::key(node, byte);
        let mut slot = self.slot_of(key);
        loop {
            let edge = self.edges[slot & mask];
            if edge >> 32 == key {
                return Some(edge as u32);
            }
            if edge == EMPTY {
                return None;
            }
            slot += 1;
        }
    }

    /// The longest token that `text` starts with, or [`NONE`].
    #[inline]
    pub(crate) fn longest(&self, text: &[u8]) -> u32 {
        let [first, rest @ ..] = text else {
            return NONE;
        };
        let mut best = self.single[usize::from(*first)];
        let [second, rest @ ..] = rest else {
            return best;
        };
        let mut node = self.second[usize::from(*first) << 8 | usize::from(*second)];
        if node == NONE {
            return best;
        }
        let mut rest = rest.iter();
        loop {
            let symbol = self.symbols[node as usize];
            if symbol != NONE {
                best = symbol;
            }
            let Some(byte) = rest.next() else { return best };
            let Some(child) = self.child(node, *byte) else {
                return best;
            };
            node = child;
        }
    }
}
