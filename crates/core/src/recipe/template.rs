//! Post-processors in the terms of a `tokenizer.json`: the ids around a text, and what trims the offsets of tokens.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;

use super::{leaves, unsupported, yes};
use crate::codec::Trim;
use crate::{Error, Result};

type Around = (Vec<u32>, Vec<u32>);

/// One step. What only pairs of texts need is ignored, and so are keys of other steps, as in HF: Command-R's
/// template has some of `ByteLevel`'s.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessor {
    ByteLevel {
        #[serde(default = "yes")]
        trim_offsets: bool,
        #[serde(default = "yes")]
        add_prefix_space: bool,
        #[serde(default, rename = "use_regex")]
        _use_regex: IgnoredAny,
    },
    RobertaProcessing {
        cls: (String, u32),
        sep: (String, u32),
        #[serde(default = "yes")]
        trim_offsets: bool,
        #[serde(default = "yes")]
        add_prefix_space: bool,
    },
    BertProcessing {
        cls: (String, u32),
        sep: (String, u32),
    },
    TemplateProcessing {
        single: Vec<Item>,
        #[serde(default, rename = "pair")]
        _pair: IgnoredAny,
        #[serde(default)]
        special_tokens: HashMap<String, Named>,
    },
}

#[derive(Deserialize)]
enum Item {
    SpecialToken { id: String },
    Sequence {},
}

#[derive(Deserialize)]
struct Named {
    ids: Vec<u32>,
}

/// Returns the ids that go before and after one text, `([0], [2])` for `RoBERTa`, and what trims.
pub fn read(post_processor: &Value) -> Result<(Around, Vec<Trim>)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut trims = Vec::new();
    for step in leaves::read_all(post_processor, "post-processor")? {
        if let Some(prefix) = trims_with(&step) {
            trims.push(Trim { prefix, shift: before.len() });
        }
        let (first, last) = around(step)?;
        before.splice(0..0, first);
        after.extend(last);
    }
    Ok(((before, after), trims))
}

/// Returns whether a step that trims leaves one space at the start.
fn trims_with(step: &PostProcessor) -> Option<bool> {
    match step {
        PostProcessor::ByteLevel { trim_offsets: true, add_prefix_space, .. }
        | PostProcessor::RobertaProcessing { trim_offsets: true, add_prefix_space, .. } => {
            Some(*add_prefix_space)
        }
        _ => None,
    }
}

fn around(step: PostProcessor) -> Result<Around> {
    let (single, named) = match step {
        PostProcessor::ByteLevel { .. } => return Ok((vec![], vec![])),
        PostProcessor::RobertaProcessing { cls, sep, .. }
        | PostProcessor::BertProcessing { cls, sep } => return Ok((vec![cls.1], vec![sep.1])),
        PostProcessor::TemplateProcessing { single, special_tokens, .. } => {
            (single, special_tokens)
        }
    };
    let mut parts = single.split(|item| matches!(item, Item::Sequence {}));
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(after), None) => Ok((ids(before, &named)?, ids(after, &named)?)),
        _ => unsupported("a template without exactly one sequence"),
    }
}

fn ids(items: &[Item], named: &HashMap<String, Named>) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for item in items {
        if let Item::SpecialToken { id } = item {
            let token = named.get(id).ok_or_else(|| {
                Error::Unsupported(format!(
                    "a template with {id:?}, which is not one of its special tokens"
                ))
            })?;
            ids.extend(&token.ids);
        }
    }
    Ok(ids)
}
