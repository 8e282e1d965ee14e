//! Documents as their owner stores them, and their text as UTF-8.
//!
//! Python stores a `str` as one, two or four bytes per character. Its own conversion to UTF-8 takes a quarter of the
//! whole encode of Korean, runs on one thread, and stays in memory as long as the string does. Ours is done where the
//! text is encoded, a document or part of one at a time, into a buffer that is reused.

use std::ops::Range;

use super::utf8::fill;
use crate::Result;

/// The text of one document.
#[derive(Debug, Clone, Copy)]
pub enum Document<'a> {
    /// UTF-8, which is encoded without a copy.
    Utf8(&'a str),
    /// The first 256 characters of Unicode, one byte each.
    Ucs1(&'a [u8]),
    /// The first 65,536 characters, two bytes each.
    Ucs2(&'a [u16]),
    /// All characters, four bytes each.
    Ucs4(&'a [u32]),
}

impl<'a> Document<'a> {
    /// Its length in units: bytes for UTF-8, characters otherwise.
    pub(super) fn units(self) -> usize {
        match self {
            Self::Utf8(text) => text.len(),
            Self::Ucs1(units) => units.len(),
            Self::Ucs2(units) => units.len(),
            Self::Ucs4(units) => units.len(),
        }
    }

    /// Bytes of UTF-8 per unit, approximately.
    pub(super) fn bytes_per_unit(self) -> usize {
        match self {
            Self::Utf8(_) | Self::Ucs1(_) => 1,
            Self::Ucs2(_) | Self::Ucs4(_) => 2,
        }
    }

    /// Bytes of UTF-8, approximately.
    pub fn bytes(self) -> usize {
        self.units() * self.bytes_per_unit()
    }

    /// Returns the text, in `buffer` if it is not UTF-8 already.
    pub fn text<'b>(self, buffer: &'b mut String) -> Result<&'b str>
    where
        'a: 'b,
    {
        self.part(0..self.units(), buffer)
    }

    /// Returns the same for a part, given in units.
    pub(super) fn part<'b>(self, part: Range<usize>, buffer: &'b mut String) -> Result<&'b str>
    where
        'a: 'b,
    {
        match self {
            Self::Utf8(text) => return Ok(&text[part]),
            Self::Ucs1(units) => fill(buffer, units, part)?,
            Self::Ucs2(units) => fill(buffer, units, part)?,
            Self::Ucs4(units) => fill(buffer, units, part)?,
        }
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::Document;

    #[test]
    fn every_character_at_every_width() {
        let mut buffer = String::new();
        for range in [0..0x100u32, 0..0x1_0000, 0..0x11_0000] {
            let text: String = range.clone().filter_map(char::from_u32).collect();
            let units: Vec<u32> = text.chars().map(u32::from).collect();
            assert_eq!(Document::Ucs4(&units).text(&mut buffer).unwrap(), text);
            if range.end <= 0x1_0000 {
                let units: Vec<u16> = units.iter().map(|&unit| unit as u16).collect();
                assert_eq!(Document::Ucs2(&units).text(&mut buffer).unwrap(), text);
            }
            if range.end <= 0x100 {
                let units: Vec<u8> = units.iter().map(|&unit| unit as u8).collect();
                assert_eq!(Document::Ucs1(&units).text(&mut buffer).unwrap(), text);
            }
        }
    }

    #[test]
    fn runs_of_any_length_at_any_place() {
        let mut buffer = String::new();
        for (before, letters, after) in (0..40usize).map(|len| (len % 19, len, 40 - len)) {
            let text = "a".repeat(before) + &"é가b".repeat(letters) + &"c".repeat(after);
            let units: Vec<u16> = text.encode_utf16().collect();
            assert_eq!(Document::Ucs2(&units).text(&mut buffer).unwrap(), text);
        }
    }

    #[test]
    fn a_lone_surrogate_is_told_with_its_place() {
        let mut buffer = String::from("kept");
        let mut units = vec![u16::from(b'a'); 40];
        units[33] = 0xDC00;
        let told = Document::Ucs2(&units).text(&mut buffer).unwrap_err();
        assert!(told.to_string().contains("at character 33"), "{told}");
        assert!(Document::Ucs4(&[0x11_0000]).text(&mut buffer).is_err());
    }
}
