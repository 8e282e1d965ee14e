//! A whole tokenizer as one immutable object: added tokens, normalizer, scan, BPE and template.
//!
//! `text -> added tokens | text -> normalizer -> added tokens | text -> prefix -> scan -> BPE -> ids`

mod added;
mod aligned;
mod batch;
mod document;
mod jobs;
mod normalize;
mod offsets;
mod pieces;
mod placing;
mod pool;
mod spelled;
mod trim;
mod utf8;
mod width;

use std::borrow::Cow;

use crate::bpe::{Bpe, VocabSpec, WordCut, Writer};
use crate::scan::{SafeCuts, Scanner};
use crate::{Error, Result};

pub use added::{Added, Part, Special};
pub use batch::{Encoded, Ids, Options};
pub use document::Document;
pub use normalize::Step;
pub use offsets::Placed;
pub use spelled::{spell_token, Spelled};
pub use trim::Trim;

use added::Matcher;
use pool::{Pool, Scratch};

/// How text becomes pieces.
#[derive(Debug)]
pub enum Splitter {
    /// By a scanner, into pieces of bytes.
    Scan(Box<Scanner>),
    /// By scanners before and after the bytes are spelled in printable characters.
    Spelled(Box<Spelled>),
    /// The whole text is one word (`SentencePiece` style).
    Whole,
    /// Each space starts a word (Metaspace that splits).
    Words,
}

/// What is put before a text that goes to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// Nothing.
    Never,
    /// A space, always (HF's `Prepend`).
    Unconditional,
    /// A space, at the start of the document only (`SentencePiece` itself).
    UnconditionalAtStart,
    /// A space unless the text starts with one (`add_prefix_space`, Metaspace `always`).
    Missing,
    /// Like `Missing`, but only at the start of the document (Metaspace `first`).
    MissingAtStart,
}

/// Everything that determines ids.
#[derive(Debug)]
pub struct CodecSpec {
    /// The vocabulary and its merges.
    pub vocabulary: VocabSpec,
    /// Added tokens, lowest id first.
    pub added: Vec<Added>,
    /// The normalizer's steps.
    pub normalizer: Vec<Step>,
    /// What goes before the text.
    pub prefix: Prefix,
    /// The pre-tokenizer.
    pub splitter: Splitter,
    /// Ids before and after every document when the caller asks for special tokens.
    pub template: (Vec<u32>, Vec<u32>),
    /// The post-processors that trim white space from the places of tokens.
    pub trims: Vec<Trim>,
}

/// A tokenizer. Immutable; share it between threads.
pub struct Codec {
    bpe: Bpe,
    splitter: Splitter,
    raw: Option<Matcher>,
    normalized: Option<Matcher>,
    /// Pieces that the model has besides its merges.
    pieces: Option<Matcher>,
    normalizer: Vec<Step>,
    prefix: Prefix,
    template: (Vec<u32>, Vec<u32>),
    trims: Vec<Trim>,
    cuts: SafeCuts,
    pool: Pool,
    /// Whether the model is SentencePiece-style, with its `▁` kept as a space in the vocabulary.
    spaced: bool,
}

impl Codec {
    /// Builds the tables; fails if the specification contradicts itself.
    pub fn new(spec: CodecSpec) -> Result<Self> {
        let bpe = Bpe::new(&spec.vocabulary)?;
        let spaced = matches!(spec.splitter, Splitter::Whole | Splitter::Words);
        let cuts = proven_cuts(&spec);
        let (pieces, added): (Vec<_>, Vec<_>) =
            spec.added.into_iter().partition(|token| token.piece);
        let pieces =
            pieces.into_iter().map(|token| (token.content.replace('▁', " "), token)).collect();
        let (late, early): (Vec<_>, Vec<_>) = added.into_iter().partition(|token| token.normalized);
        let early = early.into_iter().map(|token| (token.content.clone(), token));
        let late = late
            .into_iter()
            .map(|token| {
                Ok((normalize::normalize(&spec.normalizer, &token.content)?.into_owned(), token))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            bpe,
            splitter: spec.splitter,
            raw: Matcher::new(early.collect())?,
            normalized: Matcher::new(late)?,
            pieces: Matcher::new(pieces)?,
            normalizer: spec.normalizer,
            prefix: spec.prefix,
            template: spec.template,
            trims: spec.trims,
            cuts,
            pool: Pool::default(),
            spaced,
        })
    }

    /// The vocabulary of the model, added tokens included.
    pub fn bpe(&self) -> &Bpe {
        &self.bpe
    }

    /// Whether the model sees the printable spelling of bytes.
    pub fn is_spelled(&self) -> bool {
        matches!(self.splitter, Splitter::Spelled(_))
    }

    /// What cuts texts into pieces: as [`Scanner::kind`] says, or `"words"` without a pattern.
    pub fn scanner(&self) -> &'static str {
        match &self.splitter {
            Splitter::Scan(scanner) => scanner.kind(),
            Splitter::Spelled(spelled) => spelled.before.kind(),
            Splitter::Whole | Splitter::Words => "words",
        }
    }

    /// Whether a part of a text can be encoded before the rest is known.
    pub fn can_cut(&self) -> bool {
        self.cuts.any()
    }

    /// The last place where a text that may continue can be cut.
    pub fn last_cut(&self, text: &[u8]) -> Option<usize> {
        self.cuts.last(text)
    }

    /// The ids of one text. `continued` means that it continues where a cut ended the text before it.
    pub fn encode(&self, text: &str, special: Special, continued: bool) -> Result<Vec<u32>> {
        let mut out = Vec::with_capacity(text.len() / 3 + 4);
        let mut scratch = self.pool.take(&self.bpe, text.len());
        let Scratch { state, parts, .. } = &mut scratch;
        let mut writer = self.bpe.writer(state, &mut out);
        let outcome = self.encode_into(text, special, continued, parts, &mut writer);
        drop(writer);
        self.pool.give(scratch);
        outcome.map(|()| out)
    }

    /// The ids that the template puts before and after a document.
    pub fn template(&self) -> (&[u32], &[u32]) {
        (&self.template.0, &self.template.1)
    }

    /// Appends the ids of a text; `parts` is working space.
    fn encode_into(
        &self,
        text: &str,
        special: Special,
        continued: bool,
        parts: &mut Vec<Part>,
        out: &mut Writer,
    ) -> Result<()> {
        let matcher = self.raw.as_ref();
        let Some(matcher) = matcher.filter(|matcher| matcher.may_occur(text, special)) else {
            return self.encode_text(text, special, Place { at: 0, continued }, out);
        };
        parts.clear();
        matcher.split(text, special, parts)?;
        for part in parts {
            if part.id.is_some() {
                out.extend(part.id);
                continue;
            }
            let place = Place { at: part.start, continued: continued && part.start == 0 };
            self.encode_text(&text[part.start..part.end], special, place, out)?;
        }
        Ok(())
    }

    /// Encodes text without any token that is looked for before the normalizer.
    fn encode_text(
        &self,
        text: &str,
        special: Special,
        place: Place,
        out: &mut Writer,
    ) -> Result<()> {
        let text = normalize::normalize(&self.normalizer, text)?;
        let Some(matcher) = &self.normalized else {
            return self.encode_normal(&text, place, out);
        };
        let mut parts = Vec::new();
        matcher.split(&text, special, &mut parts)?;
        for part in &parts {
            if part.id.is_some() {
                out.extend(part.id);
                continue;
            }
            let place =
                Place { at: place.at + part.start, continued: place.continued && part.start == 0 };
            self.encode_normal(&text[part.start..part.end], place, out)?;
        }
        Ok(())
    }

    /// Encodes normalized text without any added token: prefix, scan, BPE.
    fn encode_normal(&self, text: &str, place: Place, out: &mut Writer) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let text = self.prefixed(self.in_spaces(text), place);
        if text.len() > u32::MAX as usize {
            return Err(too_long(text.len()));
        }
        let pieces = self.pieces.as_ref();
        let Some(pieces) = pieces.filter(|pieces| pieces.may_occur(&text, Special::Text)) else {
            return self.encode_between(&text, out);
        };
        let mut parts = Vec::new();
        pieces.split(&text, Special::Text, &mut parts)?;
        for part in &parts {
            match part.id {
                Some(id) => out.extend([id]),
                None => self.encode_between(&text[part.start..part.end], out)?,
            }
        }
        Ok(())
    }

    /// Encodes text without any piece that is looked for in it: scan, BPE.
    fn encode_between(&self, text: &str, out: &mut Writer) -> Result<()> {
        match &self.splitter {
            Splitter::Scan(scanner) => out.encode(scanner, text),
            Splitter::Spelled(spelled) => spelled.encode(text, out),
            Splitter::Whole => out.encode_words(text, WordCut::Runs),
            Splitter::Words => out.encode_words(text, WordCut::Each),
        }
    }

    #[inline]
    fn in_spaces<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.spaced && memchr::memmem::find(text.as_bytes(), "▁".as_bytes()).is_some() {
            Cow::Owned(text.replace('▁', " "))
        } else {
            Cow::Borrowed(text)
        }
    }

    #[inline]
    fn prefixed<'a>(&self, text: Cow<'a, str>, place: Place) -> Cow<'a, str> {
        if self.wants_prefix(&text, place) {
            Cow::Owned([" ", &text].concat())
        } else {
            text
        }
    }

    #[inline]
    fn wants_prefix(&self, text: &str, place: Place) -> bool {
        let wanted = match self.prefix {
            Prefix::Never => false,
            Prefix::Unconditional => true,
            Prefix::UnconditionalAtStart => place.at == 0,
            Prefix::Missing => !text.starts_with(' '),
            Prefix::MissingAtStart => place.at == 0 && !text.starts_with(' '),
        };
        wanted && !place.continued
    }
}

/// Where a text is in its document.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Byte offset of its start.
    at: usize,
    /// Whether it continues where a cut ended the text before it, so that no prefix is added.
    continued: bool,
}

fn too_long(bytes: usize) -> Error {
    Error::Input(format!(
        "a text of {bytes} bytes has no place where this tokenizer's pattern is known to allow a cut; \
         the limit for one piece of text is 4 GiB: split the document"
    ))
}

/// Where texts can be cut: the places that are proven for pieces, as far as they hold under this normalizer.
fn proven_cuts(spec: &CodecSpec) -> SafeCuts {
    let local = spec.normalizer.iter().all(Step::is_local);
    let plain = spec.normalizer.is_empty() || spec.added.iter().all(|token| !token.normalized);
    // A token that absorbs the white space after it may look across a cut after a newline.
    let lines = spec.added.iter().all(|token| !token.rstrip);
    let added = || {
        let content = spec.added.iter().map(|token| {
            let marker = if token.piece { " " } else { "▁" };
            token.content.replace('▁', marker)
        });
        content.collect()
    };
    // The marker inside a piece may be a space of the text or a marker of the text.
    let spans = |token: &Added| token.piece && token.content.chars().skip(1).any(|c| c == '▁');
    match &spec.splitter {
        _ if !local || !plain || spec.added.iter().any(spans) => SafeCuts::default(),
        Splitter::Scan(scanner) if lines => SafeCuts::of_scanner(scanner, added()),
        Splitter::Scan(scanner) if SafeCuts::of_scanner(scanner, Vec::new()).any() => {
            SafeCuts::before_spaces(added())
        }
        Splitter::Whole | Splitter::Words if spaces_start_words(&spec.vocabulary) => {
            SafeCuts::before_spaces(added())
        }
        _ => SafeCuts::default(),
    }
}

/// Whether no token has a space after anything but a space, so that none can span such a place.
fn spaces_start_words(vocabulary: &VocabSpec) -> bool {
    let spans = |bytes: &[u8]| bytes.windows(2).any(|pair| pair[1] == b' ' && pair[0] != b' ');
    let has_space = vocabulary.tokens.iter().any(|(bytes, _)| bytes == b" ");
    has_space && !vocabulary.tokens.iter().any(|(bytes, _)| spans(bytes))
}
