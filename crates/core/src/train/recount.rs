//! Counts all pairs of the words again, as they are now.
//!
//! Rare pairs are not followed at first (see [`super::choose`]); this is how they come back.

use super::lists::Lists;
use super::pairs::{key, Pair, PairCounts};
use super::tokens::TokenList;
use super::words::{Words, EDGE};

/// Counts every pair that may make a token of at most `longest` bytes, and lists its places.
pub fn all_pairs(words: &Words, tokens: &TokenList, longest: u32) -> (PairCounts, Lists) {
    let mut pairs = PairCounts::new(1 << 16);
    let mut group = 0;
    for_each_pair(words, tokens, longest, |key, place| {
        let weight = words.groups.count_at(place, &mut group);
        if let Some(pair) = pairs.get(key) {
            pair.count += weight;
            pair.len += 1;
        } else {
            pairs.insert(Pair { key, count: weight, start: 0, len: 1 });
        }
    });
    let mut total = 0u32;
    for pair in pairs.live_mut() {
        pair.start = total;
        total += pair.len;
        // Counts the places up again while they are written.
        pair.len = 0;
    }
    let mut lists = Lists::new(total as usize);
    for_each_pair(words, tokens, longest, |key, place| {
        if let Some(pair) = pairs.get(key) {
            lists.set(pair.start + pair.len, place);
            pair.len += 1;
        }
    });
    (pairs, lists)
}

/// Calls `each(key, place)` for adjacent tokens, in ascending order of the places.
fn for_each_pair(words: &Words, tokens: &TokenList, longest: u32, mut each: impl FnMut(u64, u32)) {
    let cells = &words.cells;
    let mut at = 1usize;
    while at + 1 < cells.len() {
        let left = cells[at];
        if left == EDGE {
            at += 1;
            continue;
        }
        let len = tokens.len_of(left);
        let right = cells[at + len as usize];
        if right != EDGE && len + tokens.len_of(right) <= longest {
            each(key(left, right), at as u32);
        }
        at += len as usize;
    }
}
