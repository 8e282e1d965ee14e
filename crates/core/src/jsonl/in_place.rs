//! Unescapes the text of one huge record in place: a line of a gigabyte is never in memory twice.

use super::fields::{Fields, TemplatePart};
use super::parse::{parse, Value};
use super::strings::{character_at, find_special, Escaped};
use crate::records::Kind;

/// Unescapes the text of the record in `line` in place and returns its span; the rest of the line must not be
/// used afterwards. None, with the line unchanged, if the record is bad, has columns, or has a text of several
/// parts: those are read in the ordinary way.
pub fn text_in_place(line: &mut [u8], fields: &Fields) -> Option<(usize, usize)> {
    let [TemplatePart::Field(slot)] = fields.text[..] else {
        return None;
    };
    let one_line = memchr::memchr(b'\n', line).is_none_or(|at| at + 1 == line.len());
    if !fields.columns.is_empty() || !one_line || line.trim_ascii_end().len() > fields.limit {
        return None;
    }
    simdutf8::basic::from_utf8(line).ok()?;
    let mut values = vec![Value::MISSING; fields.paths.len()];
    parse(line, &fields.tree, &mut values).ok()?;
    let value = values
        .get(slot)
        .filter(|value| value.present && value.kind == Kind::String)?;
    let (start, end) = (value.start, value.end);
    let text = line.get_mut(start..end)?;
    if has_lone_surrogate(text) {
        return None;
    }
    let length = unescape_in_place(text);
    Some((start, start + length))
}

fn has_lone_surrogate(s: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &s[at..]) {
        at += found;
        match character_at(&s[at..]) {
            Some(Escaped {
                character: None, ..
            }) => return true,
            Some(escaped) => at += escaped.used,
            None => return false,
        }
    }
    false
}

/// An escape is never shorter than what it stands for, so reading stays ahead of writing.
fn unescape_in_place(s: &mut [u8]) -> usize {
    let (mut from, mut to) = (0, 0);
    while from < s.len() {
        let run = find_special(&s[from..]);
        if from != to {
            s.copy_within(from..from + run, to);
        }
        from += run;
        to += run;
        let Some(escaped) = s.get(from..).and_then(character_at) else {
            break;
        };
        let mut bytes = [0; 4];
        let encoded = escaped
            .character
            .unwrap_or(char::REPLACEMENT_CHARACTER)
            .encode_utf8(&mut bytes);
        s[to..to + encoded.len()].copy_from_slice(encoded.as_bytes());
        to += encoded.len();
        from += escaped.used;
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Policy;

    fn fields(columns: Vec<Vec<String>>) -> Fields {
        Fields::new(
            vec![Err(vec!["text".into()])],
            columns,
            Policy::Refuse,
            1 << 20,
        )
    }

    #[test]
    fn the_same_text_as_the_ordinary_way() {
        let lines: [&[u8]; 6] = [
            br#"{"text": "plain"}"#,
            br#"{"id": 1, "text": "a\n\"\\\/\b\f\r\tb\u00e9\ud83d\ude00z\u0000"}"#,
            "{\"text\": \"안녕\\n 하세요\", \"more\": [1, {\"text\": 2}]}\r\n".as_bytes(),
            br#"{"text": ""}"#,
            br#"{"text": "first", "text": "\u0041\u0042"}"#,
            b"{\"text\": \"0123456789abcdef0123456789abcdef\\n0123456789abcdef\\n\"}\n",
        ];
        for line in lines {
            let expected = crate::jsonl::read(line, &fields(vec![])).texts.bytes;
            let mut copy = line.to_vec();
            let (start, end) = text_in_place(&mut copy, &fields(vec![])).unwrap();
            assert_eq!(copy[start..end], expected[..]);
        }
    }

    #[test]
    fn what_needs_telling_is_left_as_it_was() {
        let lines: [&[u8]; 8] = [
            br#"{"text": "\ud800"}"#,
            br#"{"text": "a\udc00\ud83d\n"}"#,
            br#"{"text": 5}"#,
            br#"{"other": "a"}"#,
            br#"{"text": "a"#,
            b"{\"text\": \"\xff\"}",
            b"{\"text\": \"a\"}\n{\"text\": \"b\"}\n",
            b"\n",
        ];
        for line in lines {
            let mut copy = line.to_vec();
            assert_eq!(text_in_place(&mut copy, &fields(vec![])), None);
            assert_eq!(copy, line);
        }
        let mut copy = br#"{"text": "a\n"}"#.to_vec();
        assert_eq!(
            text_in_place(&mut copy, &fields(vec![vec!["id".into()]])),
            None
        );
    }
}
