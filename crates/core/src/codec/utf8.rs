//! Converts characters of one, two or four bytes to UTF-8.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use crate::cpu::Cpu;
use crate::pages::room;
use crate::{Error, Result};

/// Characters that are examined together: most texts have long runs of ASCII, or none.
const RUN: usize = 16;
/// The most bytes that are written for a run, however many of them are valid.
const WRITTEN: usize = 4 * RUN;

/// A character as its owner stores it.
#[cfg(target_arch = "x86_64")]
pub(super) trait Unit: Copy + Into<u32> + avx2::Eight + avx512::Sixteen {}
#[cfg(not(target_arch = "x86_64"))]
pub(super) trait Unit: Copy + Into<u32> {}

impl Unit for u8 {}
impl Unit for u16 {}
impl Unit for u32 {}

/// Sets `buffer` to the text of some of these characters.
pub(super) fn fill<U: Unit>(buffer: &mut String, units: &[U], part: Range<usize>) -> Result<()> {
    let first = part.start;
    let units = &units[part];
    let mut out = std::mem::take(buffer).into_bytes();
    out.clear();
    let most = 4.min(size_of::<U>() + 1);
    let needed = units.len() * most + WRITTEN;
    if out.capacity() < needed {
        out = room(needed);
    }
    // SAFETY: there is room for `most` bytes for every unit, and for the extra bytes that a last run may write.
    let Some(end) = (unsafe { write(Cpu::get(), units, out.as_mut_ptr()) }) else {
        return Err(surrogate(units, first));
    };
    // SAFETY: everything up to `end` was written, in the same allocation, and consists of whole characters.
    *buffer = unsafe {
        out.set_len(end.offset_from_unsigned(out.as_ptr()));
        String::from_utf8_unchecked(out)
    };
    Ok(())
}

/// Writes all characters starting at `at`; returns their end, or `None` if one is not a valid character.
///
/// # Safety
/// `at` must be valid for writing four bytes for each unit (three if units have two bytes, two if they have one), and
/// [`WRITTEN`] more.
unsafe fn write<U: Unit>(cpu: Cpu, units: &[U], at: *mut u8) -> Option<*mut u8> {
    match cpu {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the proof, and the room is the caller's promise.
        Cpu::Avx512(proof) => unsafe { avx512::write(proof, units, at) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Cpu::Avx2(proof) => unsafe { avx2::write(proof, units, at) },
        // SAFETY: the caller's promise.
        _ => unsafe { write_any(units, at) },
    }
}

/// # Safety
/// As [`write`].
unsafe fn write_any<U: Unit>(units: &[U], mut at: *mut u8) -> Option<*mut u8> {
    let mut is_text = true;
    for run in units.chunks(RUN) {
        let all = run.iter().fold(0, |all, &unit| all | unit.into());
        is_text &= run.iter().fold(true, |is_text, &unit| is_text & is_scalar(unit.into()));
        for &unit in run {
            // SAFETY: the caller's promise.
            at = unsafe {
                if all < 0x80 {
                    at.write(unit.into() as u8);
                    at.add(1)
                } else {
                    put(unit.into(), at)
                }
            };
        }
    }
    is_text.then_some(at)
}

/// Writes a character; returns its end. The only branch is for characters that hardly any text has: lengths are hard
/// to predict where Korean words alternate with spaces.
///
/// # Safety
/// `at` must be valid for writing four bytes.
#[inline(always)]
unsafe fn put(unit: u32, at: *mut u8) -> *mut u8 {
    let tail = |shift: u32| 0x80 | (unit >> shift & 0x3F);
    let (bytes, len) = if unit >= 0x1_0000 {
        let bytes = 0xF0 | (unit >> 18 & 7) | tail(12) << 8 | tail(6) << 16 | tail(0) << 24;
        (bytes, 4)
    } else {
        let two = 0xC0 | unit >> 6 | tail(0) << 8;
        let three = 0xE0 | unit >> 12 | tail(6) << 8 | tail(0) << 16;
        let bytes = if unit < 0x80 { unit } else { two };
        let bytes = if unit < 0x800 { bytes } else { three };
        let len = 1 + usize::from(unit >= 0x80) + usize::from(unit >= 0x800);
        (bytes, len)
    };
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<u32>().write_unaligned(bytes.to_le());
        at.add(len)
    }
}

/// Returns whether UTF-8 can encode a character: it is not a surrogate, and not beyond the last code point.
#[inline(always)]
fn is_scalar(unit: u32) -> bool {
    char::from_u32(unit).is_some()
}

/// Returns the error for characters some of which are invalid; `first` is the position of the first unit in its text.
#[cold]
fn surrogate<U: Unit>(units: &[U], first: usize) -> Error {
    let place = units.iter().position(|&unit| !is_scalar(unit.into()));
    Error::Input(format!(
        "the text holds a lone surrogate at character {}, which UTF-8 cannot hold; replace it first, e.g. \
         text.encode(\"utf-16\", \"surrogatepass\").decode(\"utf-16\", \"replace\")",
        first + place.unwrap_or(0)
    ))
}

#[cfg(test)]
mod tests {
    use super::{write, Unit, WRITTEN};
    use crate::cpu::Cpu;

    fn written<U: Unit>(cpu: Cpu, units: &[U]) -> Option<Vec<u8>> {
        let mut out = vec![0u8; 4 * units.len() + WRITTEN];
        // SAFETY: there is room for four bytes for every character and for one more run.
        let end = unsafe { write(cpu, units, out.as_mut_ptr()) }?;
        // SAFETY: in the same allocation.
        out.truncate(unsafe { end.offset_from_unsigned(out.as_ptr()) });
        Some(out)
    }

    #[test]
    fn all_ways_write_the_same() {
        let mut state = 7u32;
        for round in 0..2000 {
            let units: Vec<u32> = (0..round % 70)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let limit = [0x80, 0x100, 0x800, 0x1_0000, 0x11_0000]
                        [(state >> 8) as usize % (1 + round % 5)];
                    (state >> 10) % limit
                })
                .collect();
            let text: Option<String> = units.iter().map(|&unit| char::from_u32(unit)).collect();
            let expected = text.map(String::into_bytes);
            let narrow: Option<Vec<u16>> = units.iter().map(|&u| u.try_into().ok()).collect();
            let bytes: Option<Vec<u8>> = units.iter().map(|&u| u.try_into().ok()).collect();
            for cpu in Cpu::all_here() {
                assert_eq!(written(cpu, &units), expected, "{cpu:?}");
                if let Some(units) = &narrow {
                    assert_eq!(written(cpu, units), expected, "{cpu:?}");
                }
                if let Some(units) = &bytes {
                    assert_eq!(written(cpu, units), expected, "{cpu:?}");
                }
            }
        }
    }
}
