//! Normalizers in the terms of a `tokenizer.json`.

use serde::Deserialize;
use serde_json::Value;

use super::{leaves, unsupported, yes};
use crate::codec::Step;
use crate::scan::Pattern;
use crate::Result;

/// Patterns that mean the same in Oniguruma and in our engine; any other is left to HF itself.
const SAME_EVERYWHERE: [&str; 5] = [r"\s+", " {2,}", " +", r"\n+", r"\r\n"];

/// One step.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum Normalizer {
    #[serde(rename = "NFC")]
    Nfc {},
    #[serde(rename = "NFD")]
    Nfd {},
    #[serde(rename = "NFKC")]
    Nfkc {},
    #[serde(rename = "NFKD")]
    Nfkd {},
    Lowercase {},
    StripAccents {},
    Strip {
        #[serde(default = "yes")]
        strip_left: bool,
        #[serde(default = "yes")]
        strip_right: bool,
    },
    Prepend {
        prepend: String,
        /// Not HF's: "first" is what `SentencePiece` itself does.
        #[serde(default)]
        scheme: Option<Scheme>,
    },
    Replace {
        pattern: Pattern,
        content: String,
    },
}

/// Where a [`Normalizer::Prepend`] acts, if not everywhere.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// At the start of the document.
    First,
}

/// Returns the steps of a normalizer.
pub fn read(normalizer: &Value) -> Result<Vec<Normalizer>> {
    leaves::read_all(normalizer, "normalizer")
}

/// Returns the codec's steps for them.
pub fn steps_of(normalizers: Vec<Normalizer>) -> Result<Vec<Step>> {
    normalizers.into_iter().map(step_of).collect()
}

fn step_of(normalizer: Normalizer) -> Result<Step> {
    Ok(match normalizer {
        Normalizer::Nfc {} => Step::Nfc,
        Normalizer::Nfd {} => Step::Nfd,
        Normalizer::Nfkc {} => Step::Nfkc,
        Normalizer::Nfkd {} => Step::Nfkd,
        Normalizer::Lowercase {} => Step::Lowercase,
        Normalizer::StripAccents {} => Step::StripAccents,
        Normalizer::Strip { strip_left: left, strip_right: right } => Step::Strip { left, right },
        Normalizer::Prepend { prepend, scheme: None } => Step::Prepend(prepend),
        Normalizer::Prepend { .. } => return unsupported("the normalizer Prepend with a scheme"),
        Normalizer::Replace { pattern, content } => match pattern {
            Pattern::String(literal) if !literal.is_empty() => Step::Replace(literal, content),
            Pattern::Regex(regex) if SAME_EVERYWHERE.contains(&&*regex) => {
                Step::replace_regex(&regex, content)?
            }
            pattern => return unsupported(format!("the normalizer Replace of {pattern:?}")),
        },
    })
}
