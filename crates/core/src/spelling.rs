//! GPT-2's printable alphabet: the 256 characters that stand for the 256 bytes in a `vocab.json`.
//!
//! HF's `ByteLevel` step rewrites each byte as one of them (`Ġ` for a space), and every byte-level vocabulary of
//! Hugging Face's is spelled in it.

/// One past the last character of the alphabet.
const END: usize = 0x144;
const OUTSIDE: u16 = u16::MAX;

/// Returns whether a byte is spelled by the Latin-1 character of the same number.
pub const fn prints(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Character of each byte; a byte that has no Latin-1 spelling gets the next one from U+0100 on.
static CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut spare = 0x100;
    let mut byte = 0;
    while byte < 256 {
        let code = if prints(byte as u8) { byte as u32 } else { spare };
        // Below U+0144, where there are no surrogates.
        if let Some(character) = char::from_u32(code) {
            chars[byte] = character;
        }
        spare += !prints(byte as u8) as u32;
        byte += 1;
    }
    chars
};

/// Byte of each character.
static BYTES: [u16; END] = {
    let mut bytes = [OUTSIDE; END];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = byte as u16;
        byte += 1;
    }
    bytes
};

/// Returns the character that stands for a byte.
#[inline]
pub fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// Returns the byte that a character stands for, if it is in the alphabet.
#[inline]
pub fn byte_of(character: char) -> Option<u8> {
    let byte = *BYTES.get(character as usize)?;
    u8::try_from(byte).ok()
}

/// Appends the bytes that a spelled token stands for: `"Ġhi" -> b" hi"`; `false` if a character is not in the
/// alphabet.
pub fn decode(spelled: &[u8], out: &mut Vec<u8>) -> bool {
    let mut at = 0;
    while let Some(&first) = spelled.get(at) {
        // The alphabet ends at U+0143, so its characters take one or two bytes of UTF-8.
        let code = match first {
            0..0x80 => usize::from(first),
            0xC2..=0xC5 => {
                at += 1;
                let second = spelled.get(at).copied().unwrap_or(0);
                usize::from(first & 0x1F) << 6 | usize::from(second & 0x3F)
            }
            _ => return false,
        };
        at += 1;
        match BYTES.get(code) {
            Some(&byte) if byte != OUTSIDE => out.push(byte as u8),
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
            let mut back = Vec::new();
            assert!(decode(char_of(byte).to_string().as_bytes(), &mut back));
            assert_eq!(back, [byte]);
        }
        let spelled = (0..0x1000).filter_map(char::from_u32);
        assert_eq!(spelled.filter(|c| byte_of(*c).is_some()).count(), 256);
        let known = [b' ', b'\n', 0x7F, 0xA0, 0xAD].map(char_of);
        assert_eq!(known, ['Ġ', 'Ċ', '\u{121}', '\u{142}', '\u{143}']);
    }

    #[test]
    fn spellings_become_bytes() {
        let mut out = Vec::new();
        assert!(decode("ĠhiĊé".as_bytes(), &mut out));
        assert_eq!(out, b" hi\n\xe9");
        for outside in [" ", "中", "\u{AD}", "ń", "😀"] {
            assert!(!decode(outside.as_bytes(), &mut Vec::new()), "{outside}");
        }
    }
}
