//! JSON Lines against `serde_json`, line by line, and against themselves: whole, in lines, as elements.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::Value;
use tokenmill_core::jsonl::{read, read_elements, Fields, State};
use tokenmill_core::records::{Batch, Policy, Reason};

const LIMIT: usize = 1 << 20;

fn fields(columns: Vec<Vec<String>>, policy: Policy) -> Fields {
    Fields::new(vec![Err(vec!["text".into()])], columns, policy, LIMIT)
}

static REFUSING: LazyLock<Fields> =
    LazyLock::new(|| fields(vec![vec!["meta".into(), "lang".into()]], Policy::Refuse));
static REPLACING: LazyLock<Fields> =
    LazyLock::new(|| fields(vec![vec!["meta".into(), "lang".into()]], Policy::Replace));
static TEXT_ONLY: LazyLock<Fields> = LazyLock::new(|| fields(vec![], Policy::Refuse));

/// The only text of a batch, if it has one.
fn only(batch: &Batch) -> Option<&str> {
    match batch.texts.len() {
        0 => None,
        1 => Some(std::str::from_utf8(&batch.texts.bytes).expect("a text is UTF-8")),
        more => panic!("{more} documents from one line"),
    }
}

/// The text according to a strict, well-tested parser; an outer `None` if it refuses the line.
fn parse_with_serde(line: &str) -> Option<Option<String>> {
    let mut reader = serde_json::Deserializer::from_str(line);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(value.get("text").and_then(Value::as_str).map(String::from))
}

/// Python accepts these, and so do we; `serde_json` does not.
fn is_python_only(line: &str) -> bool {
    line.contains("NaN") || line.contains("Infinity")
}

fn check_line(line: &[u8]) {
    let batch = read(line, &REFUSING);
    assert_eq!(batch.texts.len() + batch.rejects.len(), usize::from(!line.trim_ascii().is_empty()));
    let repaired = read(line, &REPLACING);
    if let Some(text) = only(&batch) {
        assert_eq!(only(&repaired), Some(text), "nothing to repair, so the same text");
    }
    only(&repaired);
    let Ok(text) = std::str::from_utf8(line) else {
        assert!(batch.texts.is_empty(), "accepted, but not UTF-8");
        return;
    };
    let reason = batch.rejects.first().map(|reject| reject.reason);
    // A depth that only `serde_json` without its limit accepts does not matter, and neither do its big integers.
    let ignored = matches!(reason, Some(Reason::TooDeep | Reason::OverLong)) || line.len() > 4000;
    match parse_with_serde(text) {
        _ if ignored => {}
        Some(Some(expected)) => {
            // The column beside the text may be bad where the text is good.
            if reason != Some(Reason::LoneSurrogate) {
                assert_eq!(only(&batch), Some(expected.as_str()), "{text:?}");
            }
        }
        Some(None) => assert!(reason != Some(Reason::BrokenJson) && only(&batch).is_none(), "{text:?}"),
        None => assert!(only(&batch).is_none() || is_python_only(text) || has_lone_surrogate(text), "{text:?}"),
    }
}

/// A lone surrogate outside the wanted fields is accepted, as in Python.
fn has_lone_surrogate(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    lower.contains("\\ud")
}

/// The texts of one value of many elements, read in two windows.
fn elements(block: &[u8], cut: usize) -> (Vec<u8>, u64, bool) {
    let first = read_elements(&block[..cut], &TEXT_ONLY, State::Start, cut == block.len());
    let refused = |batch: &Batch| batch.refused.iter().sum::<u64>();
    let (mut texts, mut bad) = (first.batch.texts.bytes.clone(), refused(&first.batch));
    if first.broken {
        return (texts, bad, true);
    }
    let rest = read_elements(&block[first.used..], &TEXT_ONLY, first.state, true);
    texts.extend(&rest.batch.texts.bytes);
    bad += refused(&rest.batch);
    (texts, bad, rest.broken || rest.state != State::End)
}

fuzz_target!(|data: &[u8]| {
    let whole = read(data, &REFUSING);
    let mut texts: Vec<u8> = Vec::new();
    let mut refused = 0;
    for line in data.split(|&byte| byte == b'\n') {
        check_line(line);
        let alone = read(line, &REFUSING);
        texts.extend(&alone.texts.bytes);
        refused += alone.refused.iter().sum::<u64>();
    }
    assert_eq!(whole.texts.bytes, texts, "the block and its lines differ");
    assert_eq!(whole.refused.iter().sum::<u64>(), refused);
    let expected = elements(data, data.len());
    for cut in [data.len() / 3, data.len() / 2] {
        let found = elements(data, cut);
        if !expected.2 {
            assert_eq!(found, expected, "cut at {cut}");
        }
    }
    if let Some(Ok(Value::Array(values))) = std::str::from_utf8(data).ok().map(serde_json::from_str) {
        let text = |value: &Value| value.get("text").and_then(Value::as_str).map(String::from);
        let all: String = values.iter().filter_map(text).collect();
        assert_eq!(String::from_utf8(expected.0).expect("texts are UTF-8"), all);
    }
});
