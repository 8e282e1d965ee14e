//! Pre-tokenizers in the words of a `tokenizer.json`, to and from what the scan knows.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scan::{ScanSpec, Step};
use crate::{Error, Result};

/// HF's step that spells bytes in printable characters; with `use_regex` it also splits as GPT-2 does.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum Level {
    ByteLevel {
        #[serde(default = "yes")]
        add_prefix_space: bool,
        #[serde(default = "yes")]
        trim_offsets: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
}

fn yes() -> bool {
    true
}

/// HF's pre-tokenizer of a byte-level model that scans so: `{"type":"Sequence","pretokenizers":[…]}`.
pub fn pre_tokenizer_json(spec: &ScanSpec) -> String {
    let mut steps = spec.steps();
    let use_regex = steps.last() == Some(&Step::ByteLevel);
    if use_regex {
        steps.pop();
    }
    let level = Level::ByteLevel {
        add_prefix_space: false,
        trim_offsets: true,
        use_regex,
    };
    let mut leaves: Vec<Value> = steps.iter().map(to_value).collect();
    leaves.push(to_value(&level));
    let whole = match leaves.as_slice() {
        [level] => level.clone(),
        _ => serde_json::json!({"type": "Sequence", "pretokenizers": leaves}),
    };
    whole.to_string()
}

/// Our own types hold nothing that JSON cannot.
fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The scan of HF's pre-tokenizer, as JSON.
pub fn scan_spec(json: &str) -> Result<ScanSpec> {
    let leaves = leaves(json)?;
    let steps = leaves.iter().filter_map(|leaf| match leaf {
        Leaf::Scan(step) => Some(step.clone()),
        Leaf::Spell(Level::ByteLevel { use_regex, .. }) => use_regex.then_some(Step::ByteLevel),
    });
    Ok(ScanSpec::from_steps(steps.collect()))
}

/// The same where the scan is all that the pre-tokenizer of a byte-level model does.
pub fn plain_spec(json: &str) -> Option<ScanSpec> {
    let leaves = leaves(json).ok()?;
    let (last, before) = leaves.split_last()?;
    let plain = matches!(
        last,
        Leaf::Spell(Level::ByteLevel {
            add_prefix_space: false,
            ..
        })
    );
    let alone = before.iter().all(|leaf| matches!(leaf, Leaf::Scan(_)));
    (plain && alone).then(|| scan_spec(json).ok())?
}

enum Leaf {
    Scan(Step),
    Spell(Level),
}

/// The steps of nested sequences, in order.
fn leaves(json: &str) -> Result<Vec<Leaf>> {
    let value: Value = serde_json::from_str(json).map_err(|error| unreadable(&error))?;
    let mut leaves = Vec::new();
    push_leaves(value, &mut leaves)?;
    Ok(leaves)
}

fn push_leaves(mut value: Value, leaves: &mut Vec<Leaf>) -> Result<()> {
    let kind = value.get("type").and_then(Value::as_str);
    if kind == Some("Sequence") {
        let inner = value.get_mut("pretokenizers").map(Value::take);
        for step in inner
            .and_then(|inner| inner.as_array().cloned())
            .unwrap_or_default()
        {
            push_leaves(step, leaves)?;
        }
        return Ok(());
    }
    let leaf = if kind == Some("ByteLevel") {
        serde_json::from_value(value).map(Leaf::Spell)
    } else {
        serde_json::from_value(value).map(Leaf::Scan)
    };
    leaves.push(leaf.map_err(|error| unreadable(&error))?);
    Ok(())
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::Tokenizer(format!(
        "a pre-tokenizer that the scan does not know: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{pre_tokenizer_json, scan_spec};
    use crate::scan::{names, ScanSpec};

    #[test]
    fn every_family_is_written_and_read_again() {
        for name in names() {
            let spec = ScanSpec::from_choice(name).unwrap();
            let again = scan_spec(&pre_tokenizer_json(&spec)).unwrap();
            assert_eq!(again.steps(), spec.steps(), "{name}");
            assert!(again.is_known(), "{name}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for json in [
            "{}",
            "[",
            r#"{"type":"Split"}"#,
            r#"{"type":"Whitespace","extra":1}"#,
            r#"{"type":"Punctuation","behavior":"Other"}"#,
        ] {
            assert!(scan_spec(json).is_err(), "{json}");
        }
    }
}
