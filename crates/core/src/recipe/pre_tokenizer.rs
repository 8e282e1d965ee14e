//! Pre-tokenizers in the terms of a `tokenizer.json`, to and from those of the scan.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dialect::check;
use super::{leaves, unsupported, yes, InputSteps};
use crate::codec::{Prefix, Spelled, Splitter};
use crate::scan::{ScanSpec, Scanner, Step};
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

/// HF's pre-tokenizer for a byte-level model with this scan: `{"type":"Sequence","pretokenizers":[…]}`.
pub fn pre_tokenizer_json(spec: &ScanSpec) -> String {
    let mut steps = spec.steps();
    let use_regex = steps.last() == Some(&Step::ByteLevel);
    if use_regex {
        steps.pop();
    }
    let level = Level::ByteLevel { add_prefix_space: false, trim_offsets: true, use_regex };
    let mut leaves: Vec<Value> = steps.iter().map(to_value).collect();
    leaves.push(to_value(&level));
    let whole = match leaves.as_slice() {
        [level] => level.clone(),
        _ => serde_json::json!({"type": "Sequence", "pretokenizers": leaves}),
    };
    whole.to_string()
}

/// Our own types contain nothing that JSON cannot represent.
fn to_value<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Returns the scan of HF's pre-tokenizer, as JSON.
pub fn scan_spec(json: &str) -> Result<ScanSpec> {
    spec_of(read(&parse(json)?)?)
}

/// Returns the same, if the pre-tokenizer of a byte-level model does nothing but scan.
pub fn plain_spec(json: &str) -> Option<ScanSpec> {
    let leaves = read(&parse(json).ok()?).ok()?;
    let (last, before) = leaves.split_last()?;
    let plain = matches!(last, Leaf::Spell(Level::ByteLevel { add_prefix_space: false, .. }));
    let alone = before.iter().all(|leaf| matches!(leaf, Leaf::Scan(_)));
    (plain && alone).then(|| spec_of(leaves).ok())?
}

/// How text reaches a byte-level model; one whose words have a suffix sees their printable spelling, and so does
/// one whose pre-tokenizer splits after the step that spells.
pub fn input_steps(
    normalizer: Vec<crate::codec::Step>,
    step: &Value,
    suffix: bool,
) -> Result<InputSteps> {
    let mut before = read(step)?;
    let spells = |leaf: &Leaf| matches!(leaf, Leaf::Spell(_));
    let at = before.iter().position(spells).unwrap_or(before.len());
    let after = before.split_off((at + 1).min(before.len()));
    let Some(Leaf::Spell(Level::ByteLevel { add_prefix_space, .. })) = before.last() else {
        return unsupported("a pre-tokenizer without a ByteLevel step");
    };
    if after.iter().any(spells) {
        return unsupported("a pre-tokenizer with several ByteLevel steps");
    }
    if *add_prefix_space && at > 0 {
        return unsupported("add_prefix_space after another split");
    }
    let prefix = if *add_prefix_space { Prefix::Missing } else { Prefix::Never };
    let spec = spec_of(before)?;
    let (scanner, family) = (Scanner::new(&spec)?, spec.name());
    let (splitter, family) = if suffix || !after.is_empty() {
        let after = (!after.is_empty()).then(|| spec_of(after)).transpose()?;
        let spelled = Spelled::new(scanner, after.as_ref(), suffix)?;
        (Splitter::Spelled(Box::new(spelled)), "chain")
    } else {
        (Splitter::Scan(Box::new(scanner)), family)
    };
    Ok(InputSteps { normalizer, prefix, splitter, family })
}

enum Leaf {
    Scan(Step),
    Spell(Level),
}

fn parse(json: &str) -> Result<Value> {
    serde_json::from_str(json)
        .map_err(|error| Error::Tokenizer(format!("the pre-tokenizer is not valid JSON: {error}")))
}

/// Returns the steps of nested sequences, in order.
fn read(step: &Value) -> Result<Vec<Leaf>> {
    let leaf = |step: &Value| match leaves::kind(step) {
        "ByteLevel" => leaves::read(step, "pre-tokenizer").map(Leaf::Spell),
        _ => leaves::read(step, "pre-tokenizer").map(Leaf::Scan),
    };
    leaves::leaves(step).into_iter().map(leaf).collect()
}

/// Returns what to scan for.
fn spec_of(leaves: Vec<Leaf>) -> Result<ScanSpec> {
    let steps = leaves.into_iter().filter_map(|leaf| match leaf {
        Leaf::Scan(step) => Some(step),
        Leaf::Spell(Level::ByteLevel { use_regex, .. }) => use_regex.then_some(Step::ByteLevel),
    });
    let spec = ScanSpec::from_steps(steps.collect());
    if let ScanSpec::Chain(steps) = &spec {
        steps.iter().try_for_each(check)?;
    }
    Ok(spec)
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
            assert!(matches!(again, ScanSpec::Known(_)), "{name}");
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
