use super::*;
use crate::jsonl::read;

/// Bits of lines that meet every rule of the outline.
const BITS: [&[u8]; 34] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\"",
    b"\":",
    b",",
    b"\"text\":\"",
    b"\"text\":",
    b"\"id\":\"",
    b"\"id\":7,",
    b" ",
    b"abcdefgh",
    "é中😀".as_bytes(),
    b"\\n",
    b"\\\"",
    b"\\\\",
    b"\\q",
    b"\\u0041",
    b"\\u00e9",
    b"\\ud83d\\ude00",
    b"\\ud83d",
    b"\\ude00",
    b"\\uZZ",
    b"\\u12",
    b"\xff",
    b"\xe4\xb8",
    b"\x80",
    b"\t",
    b"null",
    b"12",
    b"\r",
    b"\\",
];

fn fields(policy: Policy) -> Fields {
    let text = vec![
        Err(vec!["text".into()]),
        Ok("|".into()),
        Err(vec!["text".into()]),
    ];
    Fields::new(text, vec![vec!["id".into()]], policy, usize::MAX)
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % most
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = if self.below(4) > 0 {
            b"{\"id\":\"a\",\"text\":\"".to_vec()
        } else {
            Vec::new()
        };
        for _ in 0..self.below(24) {
            // Half of them are good within a string.
            let choice = if self.below(2) == 0 {
                12 + self.below(10)
            } else {
                self.below(BITS.len())
            };
            line.extend_from_slice(BITS[choice]);
        }
        if self.below(4) > 0 {
            line.extend_from_slice(b"\"}");
        }
        line
    }
}

fn make_outline(line: &[u8], fields: &Fields, dice: &mut Dice) -> Outline {
    let (mut outline, mut at, mut size) = (Outline::with_limit(0, fields), 0, 1);
    loop {
        size = (size + dice.below(9)).min(line.len() - at);
        let last = at + size == line.len();
        let used = outline.feed(&line[at..at + size], last);
        at += used;
        if last {
            assert_eq!(at, line.len(), "the last window is used up");
            return outline;
        }
        size -= used;
        size += 1;
    }
}

fn text_of(line: &[u8], parts: &[TextPart], policy: Policy, dice: &mut Dice) -> Vec<u8> {
    let mut text = Vec::new();
    for part in parts {
        let (start, end) = match part {
            TextPart::Literal(bytes) => {
                text.extend_from_slice(bytes);
                continue;
            }
            TextPart::Span(start, end) => (*start, *end),
        };
        let (mut at, mut size) = (start, 0);
        loop {
            size = (size + 1 + dice.below(9)).min(end - at);
            let last = at + size == end;
            let (more, used) = unescape_part(&line[at..at + size], policy, last);
            text.extend_from_slice(&more);
            at += used;
            size -= used;
            if last {
                break;
            }
        }
    }
    text
}

#[test]
fn an_outline_in_windows_says_what_the_whole_line_says() {
    let mut dice = Dice(5);
    let (mut good, mut bad, mut repaired) = (0, 0, 0);
    for turn in 0..60_000 {
        let policy = [Policy::Refuse, Policy::Replace][turn % 2];
        let (line, fields) = (dice.line(), fields(policy));
        let whole = read(&line, &fields);
        let (batch, parts) = make_outline(&line, &fields, &mut dice).finish(&fields);
        let shown = String::from_utf8_lossy(&line);
        assert_eq!(batch.refused, whole.refused, "{shown}");
        assert_eq!(batch.replaced, whole.replaced, "{shown}");
        assert_eq!(batch.rows, whole.rows, "{shown}");
        let places = |batch: &Batch| {
            batch
                .rejects
                .iter()
                .map(|reject| reject.byte)
                .collect::<Vec<_>>()
        };
        // A repaired line has other places than the line as it stands.
        if policy == Policy::Refuse || std::str::from_utf8(&line).is_ok() {
            assert_eq!(places(&batch), places(&whole), "{shown}");
        }
        bad += whole.rejects.len();
        repaired += usize::from(whole.replaced[1] > 0);
        if let (1, Some(parts)) = (whole.texts.len(), parts) {
            assert_eq!(batch.columns[0].values, whole.columns[0].values, "{shown}");
            assert_eq!(
                text_of(&line, &parts, policy, &mut dice),
                whole.texts.bytes,
                "{shown}"
            );
            good += 1;
        }
    }
    assert!(
        good > 3000 && bad > 3000 && repaired > 300,
        "{good} {bad} {repaired}"
    );
}

#[test]
fn a_long_text_leaves_a_short_outline() {
    let text = "word \\n 中\\ud83d\\ude00".repeat(10_000);
    let line = format!("{{\"id\": \"a\", \"text\": \"{text}\", \"more\": [1, 2]}}");
    let mut outline = Outline::new(&fields(Policy::Refuse));
    assert_eq!(outline.feed(line.as_bytes(), true), line.len());
    assert!(outline.size() < 5000);
    let (batch, parts) = outline.finish(&fields(Policy::Refuse));
    assert_eq!(batch.texts.len(), 1);
    let start = line.find("word").unwrap();
    let span = TextPart::Span(start, start + text.len());
    assert_eq!(parts.unwrap()[0], span);
}

#[test]
fn a_column_that_was_left_out_asks_for_the_whole_line() {
    let line = format!("{{\"id\": \"{}\", \"text\": \"a\"}}", "b".repeat(KEPT + 1));
    let mut outline = Outline::new(&fields(Policy::Refuse));
    outline.feed(line.as_bytes(), true);
    let (batch, parts) = outline.finish(&fields(Policy::Refuse));
    assert_eq!((batch.texts.len(), parts), (1, None));
}
