//! GPT-2's printable alphabet: the 256 characters that stand for the 256 bytes in a `vocab.json`.

const OUTSIDE: u16 = u16::MAX;
/// One past the last character of the alphabet.
const END: usize = 0x144;

/// Byte of each character; printable Latin-1 stands for itself, the rest took U+0100 and on, in order.
static BYTES: [u16; END] = {
    let mut bytes = [OUTSIDE; END];
    let mut spare = 0x100;
    let mut byte = 0;
    while byte < 256 {
        let printable = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        if printable {
            bytes[byte] = byte as u16;
        } else {
            bytes[spare] = byte as u16;
            spare += 1;
        }
        byte += 1;
    }
    bytes
};

/// Appends the bytes that a spelled token stands for: `"Ġhi" -> b" hi"`; `false` where a character is outside.
pub(super) fn decode(spelled: &[u8], out: &mut Vec<u8>) -> bool {
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
        let mut seen = [false; 256];
        for code in 0..0x1000 {
            let Some(character) = char::from_u32(code) else {
                continue;
            };
            let mut out = Vec::new();
            if decode(character.to_string().as_bytes(), &mut out) {
                assert!(!std::mem::replace(&mut seen[usize::from(out[0])], true));
            }
        }
        assert_eq!(seen, [true; 256]);
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
