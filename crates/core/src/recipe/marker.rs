//! The steps of SentencePiece-style models, which write a space as `▁`.
//!
//! The codec keeps the marker as a space, so that `Replace(" ", "▁")` at the end of a normalizer costs nothing.

use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;

use super::normalizer::{self, Normalizer, Scheme};
use super::{leaves, unsupported, yes, InputSteps};
use crate::codec::{Prefix, Splitter};
use crate::scan::Pattern;
use crate::{Error, Result};

/// How such a model writes a space.
pub const MARKER: &str = "▁";

#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum PreTokenizer {
    Metaspace(Metaspace),
    Split {
        pattern: Pattern,
        #[serde(default, rename = "behavior")]
        _behavior: IgnoredAny,
        #[serde(default, rename = "invert")]
        _invert: IgnoredAny,
    },
}

#[derive(Deserialize)]
struct Metaspace {
    #[serde(default)]
    replacement: Option<String>,
    #[serde(default)]
    prepend_scheme: Option<Prepend>,
    /// How older files give the scheme.
    #[serde(default = "yes")]
    add_prefix_space: bool,
    #[serde(default = "yes")]
    split: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Prepend {
    Always,
    First,
    Never,
}

impl Metaspace {
    fn prefix(&self) -> Prefix {
        match (self.prepend_scheme, self.add_prefix_space) {
            (Some(Prepend::Always), _) | (None, true) => Prefix::Missing,
            (Some(Prepend::First), _) => Prefix::MissingAtStart,
            (Some(Prepend::Never), _) | (None, false) => Prefix::Never,
        }
    }
}

/// How text reaches such a model; `late` says that added tokens are searched for after the normalizer.
pub fn input_steps(normalizer: &Value, pre_tokenizer: &Value, late: bool) -> Result<InputSteps> {
    let mut normalizers = normalizer::read(normalizer)?;
    let (mut splitter, mut prefix) = (Splitter::Whole, Prefix::Never);
    let mut marked = normalizers.last().is_some_and(writes_marker);
    if marked && !late {
        normalizers.pop();
        if let Some(rule) = normalizers.last().and_then(prepends_marker) {
            normalizers.pop();
            prefix = rule;
        }
    }
    for step in leaves::leaves(pre_tokenizer) {
        let read = leaves::read(step, "pre-tokenizer");
        match read.map_err(|error| on_characters(error.to_string()))? {
            PreTokenizer::Metaspace(step)
                if !marked && step.replacement.as_deref().unwrap_or(MARKER) == MARKER =>
            {
                marked = true;
                prefix = step.prefix();
                if step.split {
                    splitter = Splitter::Words;
                }
                if prefix == Prefix::MissingAtStart && !normalizers.is_empty() {
                    // HF asks where the first character came from, and a normalizer may have changed it.
                    return unsupported(
                        "Metaspace with prepend_scheme \"first\" after a normalizer",
                    );
                }
            }
            // After the normalizer no space is left, so a split at spaces (Gemma) does nothing.
            PreTokenizer::Split { pattern, .. }
                if marked && pattern == Pattern::String(" ".into()) => {}
            _ => {
                let kind = leaves::kind(step);
                return Err(on_characters(format!("the pre-tokenizer {kind}")));
            }
        }
    }
    if !marked {
        return unsupported("a character-level model that does not write spaces as ▁");
    }
    Ok(InputSteps {
        normalizer: normalizer::steps_of(normalizers)?,
        prefix,
        splitter,
        family: "sentencepiece",
    })
}

fn on_characters(reason: String) -> Error {
    Error::Unsupported(reason + " on a character-level model")
}

fn writes_marker(step: &Normalizer) -> bool {
    matches!(step, Normalizer::Replace { pattern: Pattern::String(literal), content }
        if literal == " " && content == MARKER)
}

fn prepends_marker(step: &Normalizer) -> Option<Prefix> {
    match step {
        Normalizer::Prepend { prepend, scheme } if prepend == MARKER => Some(match scheme {
            None => Prefix::Unconditional,
            Some(Scheme::First) => Prefix::UnconditionalAtStart,
        }),
        _ => None,
    }
}
