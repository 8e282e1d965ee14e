//! Up to three ids in one word, so that a piece's ids come with its key in one cache line.

use super::spill::Place;

/// Ids that fit.
pub(crate) const INLINE: usize = 3;
/// Ids are written in this many lanes at once; those beyond the count are overwritten by the next piece.
pub(crate) const LANES: usize = INLINE;
const ID_BITS: u32 = 20;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
const COUNT_SHIFT: u32 = INLINE as u32 * ID_BITS;
/// Stands where the count would: the ids are in the spill.
const SPILLED: u64 = 15;
const START_BITS: u32 = 44;
/// More ids than this are not remembered.
const MOST: usize = 1 << (COUNT_SHIFT - START_BITS);

/// What a piece became: 20 bits for each of three ids and their count above, or a place in the spill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed(pub(crate) u64);

impl Packed {
    /// Nothing is known.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// Packs ids if they fit.
    #[inline(always)]
    pub(crate) fn new(ids: &[u32]) -> Option<Self> {
        if ids.is_empty() || ids.len() > INLINE || ids.iter().any(|id| u64::from(*id) > ID_MASK) {
            return None;
        }
        let lanes = ids
            .iter()
            .rev()
            .fold(0, |word, id| word << ID_BITS | u64::from(*id));
        Some(Self(lanes | (ids.len() as u64) << COUNT_SHIFT))
    }

    /// Points to ids in the spill.
    pub(crate) fn spilled(place: Place) -> Option<Self> {
        let fits = (1..MOST).contains(&place.count) && place.start >> START_BITS == 0;
        let word = SPILLED << COUNT_SHIFT | (place.count as u64) << START_BITS | place.start;
        fits.then_some(Self(word))
    }

    /// Where the ids are, if not here.
    pub(crate) fn place(self) -> Option<Place> {
        (self.0 >> COUNT_SHIFT == SPILLED).then_some(Place {
            start: self.0 & ((1 << START_BITS) - 1),
            count: (self.0 >> START_BITS) as usize % MOST,
        })
    }

    /// The number of ids that are here: 0 if nothing is known, more than fit if they are in the spill.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize
    }

    /// All lanes, of which [`Self::count`] count.
    #[inline(always)]
    pub(crate) fn lanes(self) -> [u32; LANES] {
        [0, 1, 2].map(|lane| (self.0 >> (lane * ID_BITS) & ID_MASK) as u32)
    }

    /// Writes all lanes in two stores: no branch on how many of them count.
    ///
    /// # Safety
    /// `out` must be good for writing [`LANES`] ids.
    #[inline(always)]
    pub(crate) unsafe fn write(self, out: *mut u32) {
        let [first, second, third] = self.lanes();
        // SAFETY: the caller's promise.
        unsafe {
            out.cast::<[u32; 2]>().write([first, second]);
            out.add(2).write(third);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spill::Place;
    use super::Packed;

    #[test]
    fn ids_come_back() {
        for ids in [&[0][..], &[7, 0], &[(1 << 20) - 1, 1, 2]] {
            let packed = Packed::new(ids).map(|packed| packed.lanes()[..packed.count()].to_vec());
            assert_eq!(packed.as_deref(), Some(ids));
        }
        assert_eq!(Packed::new(&[1 << 20]), None);
        assert_eq!(Packed::new(&[1, 2, 3, 4]), None);
        assert_eq!(Packed::new(&[]), None);
    }

    #[test]
    fn places_come_back() {
        let place = Place {
            start: (1 << 44) - 1,
            count: 65_535,
        };
        assert_eq!(Packed::spilled(place).and_then(Packed::place), Some(place));
        assert_eq!(
            Packed::spilled(Place {
                start: 0,
                count: 1 << 16
            }),
            None
        );
        assert_eq!(Packed::new(&[1]).and_then(Packed::place), None);
    }
}
