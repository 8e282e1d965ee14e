//! Where a run of text can be cut without changing its ids.
//!
//! Chinese, Japanese and Korean pieces are long and rarely repeat, but most of their neighbouring characters can
//! never end up in the same token. A piece may be cut between two such characters, and the short segments do repeat,
//! so the cache finds them.
//!
//! *When is a cut between c1 and c2 exact?* When no merge ever crosses it. The first merge to do so would join a
//! token that ends there with one that starts there, and these two would be the canonical split (l, r) of their
//! product. So it is enough to rule out every split whose l can be at the end of c1 and whose r can be at the start
//! of c2:
//!
//! - l ends with all of c1 and r starts with all of c2. Such pairs of characters are kept in a bit set.
//! - l or r is only part of its character. While nothing else has touched a character, its own next merge is always
//!   available, so a product that ranks after all of its merges up to some point is made after them. The part must
//!   then be at the edge of a state that is left later: made, and not yet absorbed by merges that all rank before the
//!   product. If the character's *other* edge may have been touched before, any of its parts is assumed to be
//!   possible.
//!
//! Splits with a part are few; each has one of eight group bits, and a character holds the bits of those it can take
//! part in on either side. A shared bit, like a collision in the bit set, only means a missed cut.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::crossing::{Crossing, ALL_GROUPS};
use super::keys::LONG;
use super::symbols::Symbols;
use super::tables::Tables;
use crate::hash::SPREAD;

/// Characters with edge bits of their own: the basic plane, and the block of emoji after it.
const BASIC: u32 = 0x1_0000;
const EMOJI: std::ops::Range<u32> = 0x1_F000..0x2_0000;
/// In place of the edge groups of a character that no text has had yet. A character with just these groups gets all of
/// them, which only means missed cuts.
const UNKNOWN: u16 = ALL_GROUPS - 1;

/// The proof tables of one vocabulary.
pub(crate) struct Cuts {
    /// By character: groups it can be the left side of (low byte) and the right side of (high byte), found when a text
    /// first has the character: all seventy thousand would take 13 ms.
    edges: Vec<AtomicU16>,
    crossing: Crossing,
    /// Hashed set of pairs of whole characters that some merge joins.
    joined: Vec<u64>,
    shift: u32,
    /// The same for two ASCII characters, edges included: a set bit means that they stay together.
    ascii: Box<[u64; 256]>,
    /// Cuts are looked for where at least one of two neighbours is not below this code: if symbols are whole
    /// characters, all pairs are known; if they are bytes, pairs of ASCII characters are left to the cache.
    from: u32,
    /// Whether words of alphabets with two bytes to a letter are left whole.
    whole_words: bool,
}

/// The letters that decide whether two-byte letters can be cut apart: those of Russian.
const LETTERS: std::ops::Range<u32> = 0x430..0x450;
/// Words are left whole if fewer than one in this many pairs of letters can be cut apart.
const RARE_CUTS: usize = 2;

impl Cuts {
    /// `None` where the argument above does not hold for this vocabulary.
    pub(crate) fn new(tables: &Tables) -> Option<Self> {
        let from = if matches!(tables.symbols, Symbols::Bytes(_)) { 0x80 } else { 0 };
        if matches!(tables.symbols, Symbols::Chars(_)) && !tables.symbols.is_local() {
            return None;
        }
        let mut crossing = Crossing::of(tables, from);
        let whole = std::mem::take(&mut crossing.whole);
        let bits = (whole.len() * 32).next_power_of_two().clamp(1 << 14, 1 << 23);
        let mut cuts = Self {
            edges: (0..BASIC + EMOJI.end - EMOJI.start).map(|_| AtomicU16::new(UNKNOWN)).collect(),
            crossing,
            joined: vec![0; bits / 64],
            shift: 64 - bits.trailing_zeros(),
            ascii: Box::new([u64::MAX; 256]),
            from,
            whole_words: false,
        };
        for (left, right) in whole {
            let bit = cuts.bit_of(left, right);
            cuts.joined[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
        for token in tables.whole.keys() {
            cuts.keep_whole(token);
        }
        if from == 0 {
            cuts.fill_ascii(tables);
        }
        cuts.whole_words =
            cuts.safe_pairs(tables, LETTERS) * RARE_CUTS < LETTERS.len() * LETTERS.len();
        Some(cuts)
    }

    fn safe_pairs(&self, tables: &Tables, letters: std::ops::Range<u32>) -> usize {
        let at = |code| (code, self.edges_of(tables, code));
        let pairs =
            letters.clone().flat_map(|left| letters.clone().map(move |right| (left, right)));
        pairs.filter(|(left, right)| self.is_safe(at(*left), at(*right))).count()
    }

    /// Returns whether a piece is not worth walking: it is left whole by every vocabulary, or it is a word that the cache can
    /// hold, in an alphabet (Cyrillic, Greek, Arabic) in which this vocabulary has too many merges for cuts. With
    /// Llama 3, walking Russian words took a fifth of the time and they were hardly ever cut; GPT-2, which cuts them
    /// nearly everywhere, is a third faster for it.
    #[inline(always)]
    pub(crate) fn leaves_whole(&self, piece: &[u8]) -> bool {
        let is_word = self.whole_words && piece.len() <= LONG;
        is_word && matches!(second_of(piece), 0xC2..0xE0) || self.from > 0 && is_never_cut(piece)
    }

    fn fill_ascii(&mut self, tables: &Tables) {
        for at in 0..128 * 128 {
            let [left, right] =
                [at / 128, at % 128].map(|code| (code, self.edges_of(tables, code)));
            if self.is_safe(left, right) {
                self.ascii[(at >> 6) as usize] &= !(1 << (at & 63));
            }
        }
    }

    /// Tokens that are only found as whole pieces must not be cut inside.
    fn keep_whole(&mut self, token: &[u8]) {
        let Ok(text) = std::str::from_utf8(token) else {
            return;
        };
        for (left, right) in text.chars().zip(text.chars().skip(1)) {
            let bit = self.bit_of(left as u32, right as u32);
            self.joined[(bit >> 6) as usize] |= 1 << (bit & 63);
        }
    }

    #[inline(always)]
    fn bit_of(&self, left: u32, right: u32) -> u64 {
        (u64::from(left) << 32 | u64::from(right)).wrapping_mul(SPREAD) >> self.shift
    }

    /// Returns the edge groups of a character; `tables` are those that the cuts were made for.
    #[inline(always)]
    pub(crate) fn edges_of(&self, tables: &Tables, code: u32) -> u16 {
        let index = if code < BASIC {
            code
        } else if EMOJI.contains(&code) {
            code - EMOJI.start + BASIC
        } else {
            return ALL_GROUPS;
        };
        let edges = &self.edges[index as usize];
        match edges.load(Relaxed) {
            UNKNOWN => self.learn(edges, tables, code),
            known => known,
        }
    }

    /// Finds the edge groups of a character. Threads that do so at the same time find the same.
    #[cold]
    fn learn(&self, edges: &AtomicU16, tables: &Tables, code: u32) -> u16 {
        let found = match self.crossing.edges(tables, code) {
            UNKNOWN => ALL_GROUPS,
            found => found,
        };
        edges.store(found, Relaxed);
        found
    }

    /// Returns whether no merge can ever cross between two ASCII characters; always `false` where pairs of them are not
    /// examined.
    #[inline(always)]
    pub(crate) fn is_safe_ascii(&self, left: u32, right: u32) -> bool {
        let at = left << 7 | right;
        (self.ascii[(at >> 6) as usize % 256] >> (at & 63)) & 1 == 0
    }

    /// Returns whether no merge can ever cross between two characters, given their edge groups too.
    #[inline(always)]
    pub(crate) fn is_safe(&self, left: (u32, u16), right: (u32, u16)) -> bool {
        let bit = self.bit_of(left.0, right.0);
        let joined = (self.joined[(bit >> 6) as usize] >> (bit & 63)) & 1;
        joined == 0 && (left.1 as u8) & ((right.1 >> 8) as u8) == 0
    }
}

/// Returns whether a piece is left whole by all vocabularies of bytes: it is all ASCII, or it is a word that the cache can hold
/// and that begins with ASCII, as accented words do.
#[inline(always)]
pub(crate) fn is_never_cut(piece: &[u8]) -> bool {
    second_of(piece) < 0x80 && (piece.len() <= LONG || piece.is_ascii())
}

/// Returns the first byte that is not a space or another ASCII sign before a word, for a piece of more than one byte.
#[inline(always)]
fn second_of(piece: &[u8]) -> u8 {
    piece[usize::from(piece[0] < 0x80)]
}
