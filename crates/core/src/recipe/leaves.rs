//! Nested sequences of steps, and how one step is read.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Result};

const INNER: [&str; 4] = ["normalizers", "pretokenizers", "processors", "decoders"];

/// Returns the steps of nested sequences, in order; `null` has none.
pub fn leaves(step: &Value) -> Vec<&Value> {
    if step.is_null() {
        return Vec::new();
    }
    if kind(step) != "Sequence" {
        return vec![step];
    }
    let lists = INNER.iter().filter_map(|key| step.get(key)?.as_array());
    lists.flatten().flat_map(leaves).collect()
}

/// Returns the `type` of a step; `?` if it has none.
pub fn kind(step: &Value) -> &str {
    step.get("type").and_then(Value::as_str).unwrap_or("?")
}

/// Reads one step; errors name `what` it should be.
pub fn read<T: DeserializeOwned>(step: &Value, what: &str) -> Result<T> {
    T::deserialize(step).map_err(|error| {
        let (kind, error) = (kind(step), error.to_string());
        Error::Unsupported(if error.starts_with(&format!("unknown variant `{kind}`")) {
            format!("the {what} {kind}")
        } else {
            format!("the {what} {kind} ({error})")
        })
    })
}

/// Reads every step of nested sequences.
pub fn read_all<T: DeserializeOwned>(step: &Value, what: &str) -> Result<Vec<T>> {
    leaves(step).into_iter().map(|leaf| read(leaf, what)).collect()
}
