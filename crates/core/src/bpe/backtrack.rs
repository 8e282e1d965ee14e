//! Long pieces in linear time: guess the longest token, check it against the one before, go back if wrong.
//!
//! If every product ranks after its parts, a sequence of tokens is the result of merging exactly when every two
//! neighbours are the result of merging those two alone. So the ids of a piece can be found from left to right: take
//! the longest token that stays apart from the previous one; if there is none, the previous token was wrong, and no
//! guess will lead to that position again. Each position is given up at most once.
//!
//! The idea comes from the `bpe` crate in github/rust-gems. On whole corpora it gains nothing; it is for long pieces
//! on which `windows` gives up: a megabyte of one word runs at 136 MB/s instead of 4.5 with a heap of merges, a
//! megabyte of a single letter at 104 instead of 26, and one of runs of signs at 7 instead of 3.6.

use super::pairs::PairTable;
use super::tables::Tables;
use super::trie::Trie;
use super::NONE;

/// Positions from which the rest of the piece cannot be encoded.
struct Dead(Vec<u64>);

impl Dead {
    #[inline(always)]
    fn contains(&self, at: usize) -> bool {
        (self.0[at >> 6] >> (at & 63)) & 1 == 1
    }

    fn insert(&mut self, at: usize) {
        self.0[at >> 6] |= 1 << (at & 63);
    }
}

/// Appends the symbols of a piece; returns `false`, with nothing appended, if some part of it is in no token.
pub(crate) fn encode(tables: &Tables, trie: &Trie, piece: &[u8], out: &mut Vec<u32>) -> bool {
    let first = out.len();
    let mut dead = Dead(vec![0; piece.len() / 64 + 1]);
    let mut at = 0;
    let mut guess = trie.longest(piece);
    while at < piece.len() {
        if guess == NONE {
            // Nothing fits here, so the previous token was wrong, whatever it was.
            dead.insert(at);
            if out.len() == first {
                return false;
            }
            guess = out.pop().unwrap_or(NONE);
            at -= tables.len_of(guess);
            guess = trie.shorter[guess as usize];
            continue;
        }
        let end = at + tables.len_of(guess);
        let apart = || {
            out[first..]
                .last()
                .is_none_or(|last| stay_apart(tables, *last, guess))
        };
        if !dead.contains(end) && apart() {
            out.push(guess);
            at = end;
            guess = trie.longest(&piece[at..]);
        } else {
            guess = trie.shorter[guess as usize];
        }
    }
    true
}

/// Whether merging the bytes of two tokens gives these two tokens again.
#[inline]
pub(crate) fn stay_apart(tables: &Tables, left: u32, right: u32) -> bool {
    apart(
        &tables.pairs,
        |symbol| tables.splits[symbol as usize],
        left,
        right,
    )
}

/// The same for tables that are still being built: `split` gives the two parts of a product.
///
/// Merges are undone, last one first. At each step two parts meet at the boundary; if they had a product that ranks
/// before the merge undone last, they would have merged first.
#[inline(always)]
pub(crate) fn apart(
    pairs: &PairTable,
    split: impl Fn(u32) -> (u32, u32),
    mut left: u32,
    mut right: u32,
) -> bool {
    let mut undone = NONE;
    loop {
        if pairs.get(left, right) < undone {
            return false;
        }
        if left > right {
            undone = left;
            left = split(left).1;
            if left == NONE {
                return true;
            }
        } else {
            // Of two equal products the left one is made first, so a tie at the boundary also comes first.
            undone = right + 1;
            right = split(right).0;
            if right == NONE {
                return true;
            }
        }
    }
}
