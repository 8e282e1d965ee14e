//! Strict base64: full groups of four, padding only at the end.

const BAD: u8 = 0xFF;

static VALUES: [u8; 256] = {
    let mut values = [BAD; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut at = 0;
    while at < 64 {
        values[alphabet[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// Appends the bytes that `text` stands for; `false` (with some of them appended) if it is not base64.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    let groups = text.chunks_exact(4);
    if !groups.remainder().is_empty() {
        return false;
    }
    let padding = text
        .iter()
        .rev()
        .take(2)
        .take_while(|byte| **byte == b'=')
        .count();
    let before = out.len();
    for group in groups {
        let value = |at: usize| -> u32 {
            // Padding counts as zero here: one in the wrong place is found below.
            let byte = if group[at] == b'=' { b'A' } else { group[at] };
            u32::from(VALUES[usize::from(byte)])
        };
        let (a, b, c, d) = (value(0), value(1), value(2), value(3));
        if (a | b | c | d) == u32::from(BAD) {
            return false;
        }
        let word = (a << 18) | (b << 12) | (c << 6) | d;
        out.extend_from_slice(&[(word >> 16) as u8, (word >> 8) as u8, word as u8]);
    }
    let pads = memchr::memchr_iter(b'=', text).count();
    out.truncate((out.len() - before).saturating_sub(padding) + before);
    pads == padding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(text.as_bytes(), &mut out).then_some(out)
    }

    #[test]
    fn groups_and_padding() {
        assert_eq!(decoded(""), Some(vec![]));
        assert_eq!(decoded("IQ=="), Some(b"!".to_vec()));
        assert_eq!(decoded("aGk="), Some(b"hi".to_vec()));
        assert_eq!(decoded("aGV5"), Some(b"hey".to_vec()));
        assert_eq!(decoded("+/+/"), Some(vec![0xFB, 0xFF, 0xBF]));
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in [
            "a", "aGk", "a=k=", "=Gk=", "aGk=aGk=", "a===", "aG k", "aGk-", "====",
        ] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }
}
