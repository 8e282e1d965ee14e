//! Which texts have nothing but white space.

use super::check_offsets;
use crate::Result;

/// Whether each text `data[offsets[d]..offsets[d + 1]]`, which is UTF-8, is empty or all white space as
/// Python's `str.isspace` has it. Almost every text is settled by its first character.
pub fn blank_texts(data: &[u8], offsets: &[i64]) -> Result<Vec<bool>> {
    check_offsets(offsets, data.len())?;
    let texts = offsets
        .windows(2)
        .map(|pair| &data[pair[0] as usize..pair[1] as usize]);
    Ok(texts.map(is_blank).collect())
}

fn is_blank(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        // A few characters at a time, so that the first one that is not a space ends it.
        let mut take = rest.len().min(64);
        while take < rest.len() && rest[take] & 0xc0 == 0x80 {
            take += 1;
        }
        let (part, after) = rest.split_at(take);
        match std::str::from_utf8(part) {
            Ok(part) if part.chars().all(is_space) => {}
            _ => return false,
        }
        if after.is_empty() {
            return true;
        }
        rest = after;
    }
}

/// Unicode's white space, and the four separators of ASCII that Python counts with it.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::blank_texts;

    #[test]
    fn blank_is_nothing_but_space() {
        let texts = [
            "",
            " \t\r\n\u{3000}\u{1f}",
            "a",
            "  b",
            "\u{200b}",
            &"\u{2003}".repeat(100),
        ];
        let mut offsets = vec![0];
        offsets.extend(texts.iter().scan(0, |end, text| {
            *end += text.len() as i64;
            Some(*end)
        }));
        let found = blank_texts(texts.concat().as_bytes(), &offsets).unwrap();
        assert_eq!(found, [true, true, false, false, false, true]);
    }
}
