//! One window of a text: classify its blocks, find the piece starts by algebra, repair what the algebra cannot know,
//! and determine how far the result holds.
//!
//! The algebra sees only the window. Its last pieces may depend on what follows, so unless the text ends there, the
//! window is cut at its last certain piece start, and the next one begins at the cut.

use std::mem::MaybeUninit;

use super::automaton::Automaton;
use super::block::{classify, place_wide, role, Block, Roles};
use super::lanes::Lanes;
use crate::pages::prefetch;

/// Blocks in a window: enough to amortise the cost of starting one, few enough for the L1 cache.
pub const BLOCKS: usize = 32;

/// A family of patterns as algebra on class masks. Its automaton matches what the algebra cannot.
pub trait Family: Roles {
    /// Finds the piece starts of a window. The first and the last of `blocks` represent what lies before and after
    /// it.
    fn starts(self, blocks: &[Block], starts: &mut Starts);

    /// Looks at a marked apostrophe: for a contraction, returns the span that has no start except at its end.
    /// `previous` is where the last contraction ended.
    fn mend_quote(self, _text: &[u8], _at: usize, _previous: usize) -> Option<(usize, usize)> {
        None
    }
}

/// Start bits of a window, and the places where they need repair.
pub struct Starts {
    found: [u64; BLOCKS + 1],
    quotes: [u64; BLOCKS],
    odd: [u64; BLOCKS],
    any_quotes: u64,
    any_odd: u64,
}

impl Starts {
    /// No start at all.
    pub const NONE: Self = Self {
        found: [0; BLOCKS + 1],
        quotes: [0; BLOCKS],
        odd: [0; BLOCKS],
        any_quotes: 0,
        any_odd: 0,
    };

    /// Stores what the algebra found in a block: starts, apostrophes that may begin a contraction,
    /// and characters that only the matcher can place.
    #[inline(always)]
    pub fn set(&mut self, block: usize, found: u64, quotes: u64, odd: u64) {
        self.found[block] = found;
        self.quotes[block] = quotes;
        self.odd[block] = odd;
        self.any_quotes |= quotes;
        self.any_odd |= odd;
    }

    /// The start bits of a block.
    #[inline(always)]
    pub fn word(&self, block: usize) -> u64 {
        self.found[block]
    }

    fn has(&self, at: usize) -> bool {
        self.found[at / 64] >> (at % 64) & 1 == 1
    }

    fn mark(&mut self, at: usize) {
        self.found[at / 64] |= 1 << (at % 64);
    }

    /// Removes the starts in `from..to`.
    fn clear(&mut self, from: usize, to: usize) {
        if from >= to {
            return;
        }
        let (first, last) = (from / 64, (to - 1) / 64);
        let head = !0 << (from % 64);
        let tail = !0 >> (63 - (to - 1) % 64);
        if first == last {
            self.found[first] &= !(head & tail);
            return;
        }
        self.found[first] &= !head;
        self.found[first + 1..last].fill(0);
        self.found[last] &= !tail;
    }

    /// The last start before `at`, which is not 0.
    fn before(&self, at: usize) -> usize {
        let mut block = at / 64;
        let mut bits = self.found[block] & !(!0 << (at % 64));
        while bits == 0 && block > 0 {
            block -= 1;
            bits = self.found[block];
        }
        block * 64 + (63 - (bits | 1).leading_zeros() as usize)
    }
}

/// Finds the pieces of the first window of `text`, which must begin with a piece. Returns the length for which they hold, with the end of each piece as a bit of `starts`; 0 if the window has no certain end.
#[inline(always)]
pub fn scan<F: Family, L: Lanes>(
    family: F,
    plain: &Automaton,
    proof: L::Proof,
    text: &[u8],
    starts: &mut Starts,
) -> usize {
    let length = text.len().min(BLOCKS * 64);
    let count = length.div_ceil(64);
    // Short texts need only a few of these.
    let mut room = [const { MaybeUninit::uninit() }; BLOCKS + 2];
    let blocks = load::<F, L>(family, proof, text, &mut room[..count + 2]);
    (starts.any_quotes, starts.any_odd) = (0, 0);
    family.starts(blocks, starts);
    if starts.any_quotes != 0 {
        mend_quotes(family, text, length, starts);
    }
    if starts.any_odd != 0 {
        mend_odd(plain, text, length, starts);
    }
    let sure = if length == text.len() { length } else { sure_start(&blocks[..=count]) };
    starts.found[0] &= !1;
    starts.clear(sure, (BLOCKS + 1) * 64);
    starts.mark(sure);
    sure
}

#[inline(always)]
fn load<'a, F: Family, L: Lanes>(
    family: F,
    proof: L::Proof,
    text: &[u8],
    room: &'a mut [MaybeUninit<Block>],
) -> &'a mut [Block] {
    let count = room.len() - 2;
    let (mut spill, mut wide, mut any) = ([0; 2], [0; BLOCKS], 0);
    room.fill(MaybeUninit::new(Block::BEFORE));
    // SAFETY: all of them were just written.
    let blocks = unsafe { &mut *(std::ptr::from_mut(room) as *mut [Block]) };
    for (i, bytes) in text.chunks(64).take(count).enumerate() {
        let mut padded = [b' '; 64];
        let bytes = bytes.try_into().unwrap_or_else(|_| {
            padded[..bytes.len()].copy_from_slice(bytes);
            &padded
        });
        // The encoder takes so long between two windows that the CPU no longer prefetches the next one by itself.
        prefetch(bytes.as_ptr().wrapping_add(BLOCKS * 64));
        (blocks[i + 1], wide[i]) = classify(family, L::load(proof, bytes), &mut spill);
        any |= wide[i];
    }
    if any != 0 {
        for (i, &leads) in wide[..count].iter().enumerate() {
            place_wide(family, text, blocks, i + 1, leads);
        }
    }
    blocks[count + 1] = Block::AFTER;
    blocks
}

/// The last place in the window where a piece starts no matter what follows: something other than an apostrophe after
/// a letter or after a run apart. No pattern joins a letter to a number, white space or a sign after it. `blocks`
/// begins with the block before the window.
#[inline(always)]
fn sure_start(blocks: &[Block]) -> usize {
    for (i, pair) in blocks.windows(2).enumerate().rev() {
        let (before, block) = (&pair[0], &pair[1]);
        let (word, apart) = (block.word(), block.of(role::APART));
        let gap = block.of(role::BLANK) & !block.newline | block.of(role::NUMBER);
        // Odd marks and Han may belong to the signs before them.
        let plain = if before.odd | block.odd == 0 { word | apart } else { word & !block.high };
        let sure = word << 1 & gap | plain << 1 & !word & !apart & !block.quote;
        if sure != 0 {
            return i * 64 + 63 - sure.leading_zeros() as usize;
        }
    }
    0
}

#[inline(always)]
fn mend_quotes<F: Family>(family: F, text: &[u8], length: usize, starts: &mut Starts) {
    let mut previous = usize::MAX;
    for block in 0..length.div_ceil(64) {
        let mut quotes = starts.quotes[block];
        while quotes != 0 {
            let at = block * 64 + quotes.trailing_zeros() as usize;
            quotes &= quotes - 1;
            if let Some((from, to)) = family.mend_quote(text, at, previous) {
                previous = to;
                starts.clear(from, to.min(length));
                if to < length {
                    starts.mark(to);
                }
            }
        }
    }
}

/// Lets the automaton place odd characters: from the piece before each one, until a piece ends where the algebra also
/// has a start.
#[inline(always)]
fn mend_odd(plain: &Automaton, text: &[u8], length: usize, starts: &mut Starts) {
    let mut done = 0;
    for block in 0..length.div_ceil(64) {
        let mut odd = starts.odd[block];
        while odd != 0 {
            let at = block * 64 + odd.trailing_zeros() as usize;
            odd &= odd - 1;
            if at < done {
                continue;
            }
            let mut start = starts.before(at);
            while start < length {
                let end = plain.match_end(text, start);
                starts.clear(start + 1, end.min(length));
                start = end;
                if end > at && end < length && starts.has(end) {
                    break;
                }
                if end < length {
                    starts.mark(end);
                }
            }
            done = start;
        }
    }
}
