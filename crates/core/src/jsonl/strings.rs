//! Shared by all JSON readers: white space, the end of a string or an escape, and unescaping.

use crate::records::{Policy, Reason};

/// Returns the number of white-space bytes at the start of `s`.
#[inline(always)]
pub(super) fn count_spaces(s: &[u8]) -> usize {
    s.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// Returns the width of the escape that starts `s`, or `None` if it is invalid; a lone surrogate is valid here.
#[inline(always)]
pub(super) fn escape_width(s: &[u8]) -> Option<usize> {
    match s.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => {
            let digits = s.get(2..6)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
        }
        _ => None,
    }
}

/// Offset of the first byte that is a quote, a backslash or a control character; `s.len()` if none.
#[inline(always)]
pub(crate) fn find_special(s: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = s.get(at..at + LANES) {
        let mask = special_mask(chunk);
        if mask != 0 {
            return at + (mask.trailing_zeros() / BITS_PER_LANE) as usize;
        }
        at += LANES;
    }
    let tail = s[at..].iter();
    at + tail.take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\').count()
}

#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;
#[cfg(target_arch = "x86_64")]
const BITS_PER_LANE: u32 = 1;

/// Returns one bit for each special byte. SSE2 is part of every x86-64, so nothing is chosen at run time;
/// strings are short enough between escapes that wider registers gained nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::cast_ptr_alignment)] // the load is the unaligned one
fn special_mask(chunk: &[u8]) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };
    debug_assert!(chunk.len() >= LANES);
    // SAFETY: `chunk` has at least 16 readable bytes and an unaligned load is used; SSE2 is part of
    // the x86-64 baseline.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast::<__m128i>());
        let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control)) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
const LANES: usize = 8;
#[cfg(not(target_arch = "x86_64"))]
const BITS_PER_LANE: u32 = 8;

/// Returns the top bit of each special byte, eight at a time in one register. Bits above the first special
/// byte may be wrong (borrows), which is why only the lowest one is used.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn special_mask(chunk: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let mut bytes = [0; LANES];
    bytes.copy_from_slice(chunk);
    let word = u64::from_le_bytes(bytes);
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let slash = zero(word ^ (ONES * u64::from(b'\\')));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | slash | control) & TOPS
}

/// Appends the characters of the JSON string body `s` (no quotes, already validated) to `out`.
///
/// A lone surrogate is U+FFFD and counted under [`Policy::Replace`], else an error with its offset.
pub(crate) fn unescape(
    s: &[u8],
    policy: Policy,
    out: &mut Vec<u8>,
) -> std::result::Result<u64, (Reason, usize)> {
    out.reserve(s.len());
    let mut replaced = 0;
    let mut at = 0;
    while at < s.len() {
        let run = find_special(&s[at..]);
        out.extend_from_slice(&s[at..at + run]);
        at += run;
        if at >= s.len() {
            break;
        }
        let Some(Escaped { character, used }) = character_at(&s[at..]) else {
            break;
        };
        match character {
            Some(character) if character.is_ascii() => out.push(character as u8),
            Some(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None if policy == Policy::Refuse => return Err((Reason::LoneSurrogate, at)),
            None => {
                out.extend_from_slice("\u{fffd}".as_bytes());
                replaced += 1;
            }
        }
        at += used;
    }
    Ok(replaced)
}

/// What an escape stands for (nothing for a lone surrogate), and the bytes it takes.
pub(super) struct Escaped {
    pub character: Option<char>,
    pub used: usize,
}

/// Returns the escape that starts `s` with its backslash; None at the end of `s`.
#[inline(always)]
pub(super) fn character_at(s: &[u8]) -> Option<Escaped> {
    let (character, used) = match s.get(1)? {
        b'u' => code_point(s),
        &byte => (Some(simple_escape(byte)), 2),
    };
    Some(Escaped { character, used })
}

fn simple_escape(byte: u8) -> char {
    match byte {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        other => char::from(other),
    }
}

/// Returns the character of a `\uXXXX` escape (or of a pair of them) and the bytes it takes; no character
/// for a surrogate without its other half.
fn code_point(s: &[u8]) -> (Option<char>, usize) {
    let high = hex4(s.get(2..6));
    if !(0xd800..0xdc00).contains(&high) {
        return (char::from_u32(high), 6);
    }
    if s.get(6..8) == Some(b"\\u") {
        let low = hex4(s.get(8..12));
        if (0xdc00..0xe000).contains(&low) {
            let point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return (char::from_u32(point), 12);
        }
    }
    (None, 6)
}

fn hex4(digits: Option<&[u8]>) -> u32 {
    let digits = digits.unwrap_or_default().iter();
    digits.fold(0, |value, &digit| value << 4 | char::from(digit).to_digit(16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_and_every_byte_is_found() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=255u8 {
                    let mut s = vec![b'a'; length];
                    s[at] = byte;
                    let special = byte < 0x20 || byte == b'"' || byte == b'\\';
                    assert_eq!(find_special(&s), if special { at } else { length });
                }
            }
        }
    }

    #[test]
    fn escapes_become_characters() {
        let mut out = Vec::new();
        let body = br#"a\n\"\\\/\b\f\r\tb\u00e9\ud83d\ude00z"#;
        assert_eq!(unescape(body, Policy::Refuse, &mut out), Ok(0));
        assert_eq!(out, "a\n\"\\/\u{8}\u{c}\r\tbé😀z".as_bytes());
    }

    #[test]
    fn half_a_pair_is_refused_or_replaced() {
        for body in [&br"\ud800"[..], br"\udc00", br"\ud800\u0041", br"\ud800\n"] {
            assert!(unescape(body, Policy::Refuse, &mut Vec::new()).is_err());
            let mut out = Vec::new();
            assert_eq!(unescape(body, Policy::Replace, &mut out), Ok(1));
            assert!(out.starts_with("\u{fffd}".as_bytes()));
        }
    }
}
