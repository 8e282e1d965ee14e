//! The parts of a tokenizer as Python hands them over, and how they become the core's specification.

use pyo3::prelude::*;
use tokenmill_core::bpe::{Alphabet, Merges, VocabSpec};
use tokenmill_core::codec::{Added, CodecSpec, Prefix, Spelled, Splitter, Step};
use tokenmill_core::scan::{Behavior, Dialect, Pattern, ScanSpec, Scanner, Step as ScanStep};
use tokenmill_core::{Error, Result};

use crate::vocabulary::{Merges as MergesRead, Tokens};

type Token = (Vec<u8>, u32);

/// Tokens that a file reader made, or pairs that Python made.
#[derive(FromPyObject)]
pub enum TokenParts<'py> {
    Read(PyRef<'py, Tokens>),
    Pairs(Vec<Token>),
}

/// Merges that a file reader made, or pairs that Python made.
#[derive(FromPyObject)]
pub enum MergeParts<'py> {
    Read(PyRef<'py, MergesRead>),
    Pairs(Vec<(u32, u32)>),
}

/// `(kind, pattern, behavior, flag)` of a pre-tokenizer step.
pub type StepParts = (String, String, String, bool);
type AddedParts = (String, u32, bool, bool, bool, bool, bool);

/// Keyword arguments of `_core.Codec`; `tokenmill.engine.backends.native` writes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[allow(clippy::struct_excessive_bools)] // independent flags of one call
pub struct Parts<'py> {
    tokens: TokenParts<'py>,
    extra: Vec<Token>,
    merges: Option<MergeParts<'py>>,
    /// Token ids in the order of their ranks; None where that is the order of the ids.
    ranked: Option<Vec<u32>>,
    chars: bool,
    byte_tokens: Option<Vec<u32>>,
    unk: Option<u32>,
    fuse_unk: bool,
    ignore_merges: bool,
    added: Vec<AddedParts>,
    /// `(kind, first argument, second argument)`
    normalizer: Vec<(String, String, String)>,
    prefix: String,
    /// `(kind, pattern, behavior, flag)`
    steps: Vec<StepParts>,
    /// Steps that act on the printable spelling of bytes; such a model is always spelled.
    after: Vec<StepParts>,
    spelled: bool,
    /// Whether the last character of a word has a suffix.
    suffix: bool,
    template: (Vec<u32>, Vec<u32>),
}

/// The specification and the name of its scanner.
pub fn spec_from(parts: Parts<'_>) -> Result<(CodecSpec, &'static str)> {
    let (splitter, family) = splitter(&parts)?;
    let alphabet = alphabet(&parts)?;
    let tokens = match parts.tokens {
        TokenParts::Read(tokens) => tokens.core().clone(),
        TokenParts::Pairs(pairs) => pairs.into_iter().collect(),
    };
    let merges = match (parts.merges, parts.ranked) {
        (Some(MergeParts::Read(merges)), _) => Merges::List(merges.core().clone()),
        (Some(MergeParts::Pairs(pairs)), _) => Merges::List(pairs.into()),
        (None, Some(ranked)) => Merges::Ranked(ranked),
        (None, None) => Merges::Ranked(tokens.ids().to_vec()),
    };
    let spec = CodecSpec {
        splitter,
        vocabulary: VocabSpec {
            tokens,
            extra: parts.extra,
            merges,
            alphabet,
            ignore_merges: parts.ignore_merges,
        },
        added: parts.added.into_iter().map(added).collect(),
        normalizer: parts
            .normalizer
            .into_iter()
            .map(normalizer_step)
            .collect::<Result<_>>()?,
        prefix: match parts.prefix.as_str() {
            "unconditional" => Prefix::Unconditional,
            "unconditional_at_start" => Prefix::UnconditionalAtStart,
            "missing" => Prefix::Missing,
            "missing_at_start" => Prefix::MissingAtStart,
            "never" => Prefix::Never,
            other => return Err(Error::Tokenizer(format!("unknown prefix rule {other:?}"))),
        },
        template: parts.template,
    };
    Ok((spec, family))
}

fn alphabet(parts: &Parts<'_>) -> Result<Alphabet> {
    if !parts.chars {
        return Ok(Alphabet::Bytes);
    }
    let byte_tokens = match &parts.byte_tokens {
        None => None,
        Some(ids) => Some(Box::new(<[u32; 256]>::try_from(ids.as_slice()).map_err(
            |_| Error::Tokenizer(format!("{} byte tokens; expected 256", ids.len())),
        )?)),
    };
    Ok(Alphabet::Chars {
        byte_tokens,
        unk: parts.unk,
        fuse_unk: parts.fuse_unk,
    })
}

fn added(parts: AddedParts) -> Added {
    let (content, id, special, lstrip, rstrip, single_word, normalized) = parts;
    Added {
        content,
        id,
        special,
        lstrip,
        rstrip,
        single_word,
        normalized,
    }
}

fn normalizer_step((kind, first, second): (String, String, String)) -> Result<Step> {
    Ok(match kind.as_str() {
        "nfc" => Step::Nfc,
        "nfd" => Step::Nfd,
        "nfkc" => Step::Nfkc,
        "nfkd" => Step::Nfkd,
        "lowercase" => Step::Lowercase,
        "strip_accents" => Step::StripAccents,
        "strip" => Step::Strip {
            left: first == "left",
            right: second == "right",
        },
        "prepend" => Step::Prepend(first),
        "replace" => Step::Replace(first, second),
        "replace_regex" => Step::replace_regex(&first, second)?,
        _ => return Err(Error::Tokenizer(format!("unknown normalizer {kind:?}"))),
    })
}

fn splitter(parts: &Parts<'_>) -> Result<(Splitter, &'static str)> {
    let spec = match parts.steps.as_slice() {
        [(kind, ..)] if kind == "whole" => return Ok((Splitter::Whole, "sentencepiece")),
        [(kind, ..)] if kind == "words" => return Ok((Splitter::Words, "sentencepiece")),
        [(kind, pattern, ..)] if kind == "pattern" => ScanSpec::from_regex(pattern),
        steps => ScanSpec::from_steps(steps_from(steps)?),
    };
    let scanner = Scanner::new(&spec)?;
    if !parts.spelled {
        return Ok((Splitter::Scan(Box::new(scanner)), spec.name()));
    }
    let steps = steps_from(&parts.after)?;
    let after = (!steps.is_empty()).then(|| Scanner::new(&ScanSpec::Chain(steps)));
    let spelled = Spelled {
        before: scanner,
        after: after.transpose()?,
        suffix: parts.suffix,
    };
    Ok((Splitter::Spelled(Box::new(spelled)), "chain"))
}

/// The core's steps for a pre-tokenizer.
pub fn steps_from(steps: &[StepParts]) -> Result<Vec<ScanStep>> {
    steps.iter().map(scan_step).collect()
}

fn scan_step(step: &StepParts) -> Result<ScanStep> {
    let (kind, pattern, name, flag) = step;
    Ok(match kind.as_str() {
        "split" => ScanStep::Split {
            pattern: Pattern::Regex(pattern.clone()),
            dialect: Dialect::Oniguruma,
            behavior: behavior(name)?,
            invert: *flag,
        },
        "literal" => ScanStep::Split {
            pattern: Pattern::String(pattern.clone()),
            dialect: Dialect::Oniguruma,
            behavior: behavior(name)?,
            invert: *flag,
        },
        "digits" => ScanStep::Digits { individual: *flag },
        "punctuation" => ScanStep::Punctuation {
            behavior: behavior(name)?,
        },
        "whitespace" => ScanStep::Whitespace {},
        "whitespace_split" => ScanStep::WhitespaceSplit {},
        "byte_level" => ScanStep::ByteLevel,
        _ => return Err(Error::Tokenizer(format!("unknown pre-tokenizer {kind:?}"))),
    })
}

fn behavior(name: &str) -> Result<Behavior> {
    Ok(match name {
        "Removed" => Behavior::Removed,
        "Isolated" => Behavior::Isolated,
        "MergedWithPrevious" => Behavior::MergedWithPrevious,
        "MergedWithNext" => Behavior::MergedWithNext,
        "Contiguous" => Behavior::Contiguous,
        _ => return Err(Error::Tokenizer(format!("unknown split behavior {name:?}"))),
    })
}
