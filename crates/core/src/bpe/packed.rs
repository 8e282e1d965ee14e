//! Up to four ids in one vector, so that a piece's ids share a cache line with its key and are written with one
//! store.

use super::spill::IdSpan;

/// The number of ids that fit.
pub(crate) const INLINE: usize = 4;
/// The last lane holds the count above its id.
const COUNT_SHIFT: u32 = 24;
const LAST_MASK: u32 = (1 << COUNT_SHIFT) - 1;
/// In place of the count: the ids are in the spill.
const SPILLED: u32 = 0xFF;

/// The ids of a piece and their count, or a place in the spill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct Packed([u32; INLINE]);

impl Packed {
    /// Packs ids if they fit.
    #[inline(always)]
    pub(crate) fn new(ids: &[u32]) -> Option<Self> {
        let mut lanes = [0; INLINE];
        lanes.get_mut(..ids.len())?.copy_from_slice(ids);
        let fits = !ids.is_empty() && lanes[INLINE - 1] <= LAST_MASK;
        lanes[INLINE - 1] |= (ids.len() as u32) << COUNT_SHIFT;
        fits.then_some(Self(lanes))
    }

    /// Points to ids in the spill.
    pub(crate) fn spilled(place: IdSpan) -> Option<Self> {
        let count = u32::try_from(place.count).ok()?;
        let start = [place.start as u32, (place.start >> 32) as u32];
        (count <= LAST_MASK).then_some(Self([
            start[0],
            start[1],
            0,
            count | SPILLED << COUNT_SHIFT,
        ]))
    }

    /// Returns where in the spill the ids are.
    #[inline(always)]
    pub(crate) fn place(self) -> Option<IdSpan> {
        let [low, high, _, last] = self.0;
        (last >> COUNT_SHIFT == SPILLED).then_some(IdSpan {
            start: u64::from(high) << 32 | u64::from(low),
            count: (last & LAST_MASK) as usize,
        })
    }

    /// Returns the number of ids stored here; more than fit if they are in the spill.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        (self.0[INLINE - 1] >> COUNT_SHIFT) as usize
    }

    /// Returns all lanes, of which the first [`Self::count`] are valid.
    #[inline(always)]
    pub(crate) fn lanes(self) -> [u32; INLINE] {
        let [first, second, third, last] = self.0;
        [first, second, third, last & LAST_MASK]
    }

    /// Writes all lanes in one store: no branch on how many of them are valid. Compilers make three stores of the
    /// portable form, with which seen text took a tenth longer.
    ///
    /// # Safety
    /// `out` must be valid for writing [`INLINE`] ids.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, out: *mut u32) {
        // SAFETY: the room is the caller's promise. Every x86-64 has SSE2, and `self` is sixteen bytes, aligned.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                use std::arch::x86_64 as sse;
                let mask = sse::_mm_set_epi32(LAST_MASK as i32, -1, -1, -1);
                let lanes = sse::_mm_load_si128(std::ptr::from_ref(self).cast());
                sse::_mm_storeu_si128(out.cast(), sse::_mm_and_si128(lanes, mask));
            }
            #[cfg(not(target_arch = "x86_64"))]
            out.cast::<[u32; INLINE]>().write(self.lanes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spill::IdSpan;
    use super::Packed;

    #[test]
    fn ids_come_back() {
        let most = (1 << 24) - 1;
        for ids in [&[0][..], &[7, 0], &[u32::MAX, 1, 2], &[u32::MAX, 1, 2, most]] {
            let packed = Packed::new(ids).map(|packed| packed.lanes()[..packed.count()].to_vec());
            assert_eq!(packed.as_deref(), Some(ids));
        }
        assert_eq!(Packed::new(&[1, 2, 3, 1 << 24]), None);
        assert_eq!(Packed::new(&[1, 2, 3, 4, 5]), None);
        assert_eq!(Packed::new(&[]), None);
    }

    #[test]
    fn places_come_back() {
        let place = IdSpan { start: u64::MAX - 1, count: 65_535 };
        assert_eq!(Packed::spilled(place).and_then(Packed::place), Some(place));
        let count = 1 << 24;
        assert_eq!(Packed::spilled(IdSpan { start: 0, count }), None);
        assert_eq!(Packed::new(&[1]).and_then(Packed::place), None);
    }
}
