//! From windows to batches: scans a new window when the last one is used up, and unpacks its bits.

use super::automaton::Automaton;
use super::lanes::Lanes;
use super::window::{scan, Family, Starts, BLOCKS};

/// Ends that were found but not yet returned, and where the search continues.
pub struct Pieces<'a> {
    /// Matches piece by piece, where the algebra cannot.
    pub plain: &'a Automaton,
    text: &'a [u8],
    starts: Starts,
    /// Start of the window.
    base: usize,
    /// The block of the window that is read next, and its remaining bits.
    block: usize,
    bits: u64,
    /// The last end returned: everything before it is done.
    at: usize,
    /// End of the part of the window whose pieces are certain.
    sure: usize,
    /// Pieces before this position are matched one by one.
    unsure: usize,
}

impl<'a> Pieces<'a> {
    /// The beginning of a text.
    pub fn new(plain: &'a Automaton, text: &'a [u8]) -> Self {
        Self {
            plain,
            text,
            starts: Starts::NONE,
            base: 0,
            block: 0,
            bits: 0,
            at: 0,
            sure: 0,
            unsure: 0,
        }
    }

    /// Writes the next ends using the automaton alone. `note` receives the index of each and whether it is dropped.
    #[inline(always)]
    pub fn fill_plain(&mut self, ends: &mut [u32], note: impl FnMut(usize, bool)) -> usize {
        let count = self.plain.fill(self.text, self.at, ends, note);
        if let Some(last) = count.checked_sub(1) {
            self.at = ends[last] as usize;
        }
        count
    }

    /// Writes the next ends and returns their number; 0 means the text is done. The last places of `ends` may stay
    /// unused, as a block is unpacked all at once.
    #[inline(always)]
    pub fn fill<F: Family, L: Lanes>(
        &mut self,
        family: F,
        proof: L::Proof,
        ends: &mut [u32],
    ) -> usize {
        let mut count = 0;
        while count < ends.len() {
            if self.at < self.sure {
                if count > 0 && ends.len() - count < 64 {
                    break;
                }
                count += self.take::<L>(proof, &mut ends[count..]);
            } else if self.at < self.unsure {
                self.at = self.plain.match_end(self.text, self.at);
                ends[count] = self.at as u32;
                count += 1;
            } else if self.at < self.text.len() {
                self.find::<F, L>(family, proof);
            } else {
                break;
            }
        }
        count
    }

    /// Scans the next window. A window without a certain end, in the middle of a very long piece or of text without
    /// letters, is matched piece by piece.
    #[inline(always)]
    fn find<F: Family, L: Lanes>(&mut self, family: F, proof: L::Proof) {
        self.base = self.at;
        let (text, starts) = (&self.text[self.at..], &mut self.starts);
        self.sure = self.at + scan::<F, L>(family, self.plain, proof, text, starts);
        if self.sure == self.at {
            self.unsure = (self.at + BLOCKS * 64).min(self.text.len());
        }
        self.block = 0;
        self.bits = self.starts.word(0);
    }

    /// Moves ends from the window's bits to `ends` until either is exhausted. `ends` may be left with less than a
    /// block of room, unless that is all it has.
    #[inline(always)]
    fn take<L: Lanes>(&mut self, proof: L::Proof, ends: &mut [u32]) -> usize {
        let (mut count, last) = (0, (self.sure - self.base) / 64);
        loop {
            let base = (self.base + self.block * 64) as u32;
            if let Some(places) = ends.get_mut(count..).and_then(<[u32]>::first_chunk_mut) {
                L::unpack(proof, self.bits, base, places);
                count += self.bits.count_ones() as usize;
                self.bits = 0;
            } else if count == 0 {
                count = unpack_some(&mut self.bits, base, ends);
            }
            if self.bits != 0 || self.block == last {
                break;
            }
            self.block += 1;
            self.bits = self.starts.word(self.block);
        }
        if let Some(end) = count.checked_sub(1) {
            self.at = ends[end] as usize;
        }
        count
    }
}

/// Writes the positions of the set bits while there is room, and clears those bits.
fn unpack_some(bits: &mut u64, base: u32, ends: &mut [u32]) -> usize {
    let mut count = 0;
    for end in ends {
        if *bits == 0 {
            break;
        }
        *end = base + bits.trailing_zeros();
        *bits &= *bits - 1;
        count += 1;
    }
    count
}
