//! From windows to batches: scans a window when the last one is used up, and unpacks its bits.

use super::lanes::Lanes;
use super::window::{scan, Family, Starts, BLOCKS};

/// Ends that were found but not given yet, and where the search goes on.
pub struct Pieces {
    starts: Starts,
    /// Start of the window.
    base: usize,
    /// The block of the window that is read next, with what is left of its bits.
    block: usize,
    bits: u64,
    /// The last end given: all that comes before it is done.
    at: usize,
    /// End of the window, as far as its pieces are sure.
    sure: usize,
    /// Pieces before this place are matched one by one.
    plain: usize,
}

impl Pieces {
    /// The beginning of a text.
    pub fn new() -> Self {
        Self {
            starts: Starts::NONE,
            base: 0,
            block: 0,
            bits: 0,
            at: 0,
            sure: 0,
            plain: 0,
        }
    }

    /// Writes the next ends by the matcher alone.
    pub fn fill_plain<F: Family>(&mut self, family: F, text: &[u8], ends: &mut [u32]) -> usize {
        let mut count = 0;
        while count < ends.len() && self.at < text.len() {
            self.at = family.piece_end(text, self.at);
            ends[count] = self.at as u32;
            count += 1;
        }
        count
    }

    /// Writes the next ends and gives their number; 0 means the text is done.
    #[inline(always)]
    pub fn fill<F: Family, L: Lanes>(&mut self, family: F, text: &[u8], ends: &mut [u32]) -> usize {
        let mut count = 0;
        while count < ends.len() {
            if self.at < self.sure {
                count += self.take(&mut ends[count..]);
            } else if self.at < self.plain {
                self.at = family.piece_end(text, self.at);
                ends[count] = self.at as u32;
                count += 1;
            } else if self.at < text.len() {
                self.find::<F, L>(family, text);
            } else {
                break;
            }
        }
        count
    }

    /// Scans the next window. One without a sure end, in the middle of a very long piece or of text
    /// without letters, is matched piece by piece.
    #[inline(always)]
    fn find<F: Family, L: Lanes>(&mut self, family: F, text: &[u8]) {
        self.base = self.at;
        self.sure = self.at + scan::<F, L>(family, text, self.at, &mut self.starts);
        if self.sure == self.at {
            self.plain = (self.at + BLOCKS * 64).min(text.len());
        }
        self.block = 0;
        self.bits = self.starts.word(0);
    }

    /// Moves ends from the window's bits to `ends`, until either is used up.
    #[inline(always)]
    fn take(&mut self, ends: &mut [u32]) -> usize {
        let (mut count, last) = (0, (self.sure - self.base) / 64);
        loop {
            let base = (self.base + self.block * 64) as u32;
            count += unpack(&mut self.bits, base, &mut ends[count..]);
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

/// Writes the places of the set bits while there is room, and clears them.
#[inline(always)]
fn unpack(bits: &mut u64, base: u32, ends: &mut [u32]) -> usize {
    let (mut left, before) = (*bits, bits.count_ones());
    let mut eights = ends.chunks_exact_mut(8);
    // Eight at a time without looking, as the number of bits is hard to predict.
    while left != 0 {
        let Some(eight) = eights.next() else {
            break;
        };
        for end in eight {
            *end = base + left.trailing_zeros();
            left &= left.wrapping_sub(1);
        }
    }
    if left != 0 {
        for end in eights
            .into_remainder()
            .iter_mut()
            .take(left.count_ones() as usize)
        {
            *end = base + left.trailing_zeros();
            left &= left - 1;
        }
    }
    *bits = left;
    (before - left.count_ones()) as usize
}
