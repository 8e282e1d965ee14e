//! A tokenizer as files describe it, in the terms of a `tokenizer.json`, turned into what a codec is built from.
//!
//! Nothing here is approximate. A step that the codec does not do exactly as Hugging Face does is
//! [`Error::Unsupported`] with the reason; a key or a value that is unknown is refused by name.

mod dialect;
mod leaves;
mod marker;
mod model;
mod normalizer;
mod pre_tokenizer;
mod template;

use serde::Deserialize;
use serde_json::Value;

use crate::bpe::{Merges, Tokens};
use crate::codec::{Added, Codec, CodecSpec, Prefix, Splitter, Step};
use crate::{Error, Result};

pub use pre_tokenizer::{plain_spec, pre_tokenizer_json, scan_spec};

use model::{Model, ModelKind};

/// Everything that decides ids, except the tokens and their order, which are too large for JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    model: Model,
    added_tokens: Vec<Added>,
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
}

/// How text reaches the model.
struct InputSteps {
    normalizer: Vec<Step>,
    prefix: Prefix,
    splitter: Splitter,
    /// The name of the scanner.
    family: &'static str,
}

impl Recipe {
    /// From one JSON object.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::Tokenizer(format!("the recipe cannot be read: {error}")))
    }

    /// Returns the codec's specification and the name of its scanner. `order` is that of the merges; without it, tokens
    /// are ranked by their ids.
    pub fn into_spec(
        self,
        tokens: &Tokens,
        order: Option<Merges>,
    ) -> Result<(CodecSpec, &'static str)> {
        self.model.refuse_options()?;
        refuse_added(&self.added_tokens)?;
        if self.model.kind == ModelKind::Bytes {
            refuse_pieces(&self.added_tokens)?;
        }
        let (template, trims) = template::read(&self.post_processor)?;
        let way = match self.model.kind {
            ModelKind::Bytes => pre_tokenizer::input_steps(
                normalizer::steps_of(normalizer::read(&self.normalizer)?)?,
                &self.pre_tokenizer,
                !self.model.end_of_word_suffix.is_empty(),
            )?,
            ModelKind::Chars => {
                let late = self.added_tokens.iter().any(|token| token.normalized);
                marker::input_steps(&self.normalizer, &self.pre_tokenizer, late)?
            }
        };
        let spelled = matches!(way.splitter, Splitter::Spelled(_));
        let vocabulary = self.model.vocabulary(tokens, order, &self.added_tokens, spelled)?;
        let mut added = self.added_tokens;
        added.sort_by_key(|token| (!token.special, token.id));
        let spec = CodecSpec {
            vocabulary,
            added,
            normalizer: way.normalizer,
            prefix: way.prefix,
            splitter: way.splitter,
            template,
            trims,
        };
        Ok((spec, way.family))
    }
}

/// Builds the codec of a recipe in JSON; also returns the name of its scanner.
pub fn build(json: &str, tokens: &Tokens, order: Option<Merges>) -> Result<(Codec, &'static str)> {
    let (spec, family) = Recipe::from_json(json)?.into_spec(tokens, order)?;
    Ok((Codec::new(spec)?, family))
}

fn refuse_pieces(added: &[Added]) -> Result<()> {
    if added.iter().any(|token| token.piece) {
        return unsupported("pieces of a SentencePiece model on a byte-level one");
    }
    Ok(())
}

fn refuse_added(added: &[Added]) -> Result<()> {
    let of_space = |token: &Added| token.lstrip && token.content.starts_with(char::is_whitespace);
    if added.iter().any(|token| token.rstrip) && added.iter().any(of_space) {
        return unsupported("an added token of white space with lstrip, next to one with rstrip");
    }
    Ok(())
}

fn unsupported<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Unsupported(reason.into()))
}

fn yes() -> bool {
    true
}
