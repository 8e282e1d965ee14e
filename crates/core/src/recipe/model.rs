//! The model of a recipe: its flags, and its tokens as the codec needs them.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use super::marker::MARKER;
use super::unsupported;
use crate::bpe::{Alphabet, Merges, Tokens, Unknown, VocabSpec};
use crate::codec::{spell_token, Added};
use crate::{Error, Result};

/// What pieces start from.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Single bytes.
    Bytes,
    /// Characters, as `SentencePiece` does it.
    Chars,
}

/// The BPE without its tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // independent flags of the file format
pub struct Model {
    pub kind: ModelKind,
    pub end_of_word_suffix: String,
    ignore_merges: bool,
    byte_fallback: bool,
    fuse_unk: bool,
    unk_id: Option<u32>,
    /// Tokens that no merge can reach.
    unreachable: Vec<(u32, String)>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
}

impl Model {
    /// Refuses options that the codec does not support.
    pub fn refuse_options(&self) -> Result<()> {
        if let Some(dropout) = self.dropout.filter(|dropout| *dropout != 0.0) {
            return unsupported(format!("BPE dropout is {dropout}: ids are random"));
        }
        if self.continuing_subword_prefix.as_deref().is_some_and(|prefix| !prefix.is_empty()) {
            return unsupported("the model has a continuing_subword_prefix");
        }
        if self.ignore_merges && !self.end_of_word_suffix.is_empty() {
            return unsupported("ignore_merges with an end_of_word_suffix");
        }
        if self.ignore_merges && self.kind == ModelKind::Chars {
            return unsupported("ignore_merges on a character-level model");
        }
        Ok(())
    }

    /// Returns the vocabulary for a codec that reads text itself, or the printable spelling of its bytes if `spelled`.
    pub fn vocabulary(
        &self,
        tokens: &Tokens,
        order: Option<Merges>,
        added: &[Added],
        spelled: bool,
    ) -> Result<VocabSpec> {
        let mut extra = Extra::default();
        for (id, token) in &self.unreachable {
            extra.set(*id, token.as_bytes());
        }
        for token in added {
            extra.set(token.id, token.content.as_bytes());
        }
        let (kept, byte_tokens) = match self.kind {
            ModelKind::Bytes if spelled => {
                let spell = |(token, id)| (spell_token(token, &self.end_of_word_suffix), id);
                (tokens.iter().map(spell).collect(), None)
            }
            ModelKind::Bytes => (tokens.clone(), None),
            ModelKind::Chars => self.with_spaces(tokens, &mut extra)?,
        };
        let alphabet = if self.kind == ModelKind::Bytes && !spelled {
            Alphabet::Bytes
        } else {
            Alphabet::Chars { byte_tokens }
        };
        let merges = match order {
            // What a file's reader knows about merges is true of the tokens as it read them, not of rewritten ones.
            Some(Merges::List(list)) if !matches!(alphabet, Alphabet::Bytes) => {
                Merges::List(list.pairs().to_vec().into())
            }
            Some(order) => order,
            None => Merges::Ranked(kept.ids().to_vec()),
        };
        Ok(VocabSpec {
            extra: extra.without(&kept),
            tokens: kept,
            merges,
            alphabet,
            unknown: self.unk_id.map(|id| Unknown { id, fused: self.fuse_unk }),
            ignore_merges: self.ignore_merges,
        })
    }

    /// Returns the tokens of a SentencePiece-style model with spaces for markers, and the tokens of bytes. A token that
    /// contains a space itself is never found in a text, and neither is the token of a byte.
    fn with_spaces(&self, tokens: &Tokens, extra: &mut Extra) -> Result<(Tokens, ByteTokens)> {
        let byte_tokens = if self.byte_fallback { Some(byte_tokens(tokens)?) } else { None };
        let of_bytes: HashSet<u32> = byte_tokens.iter().flat_map(|ids| **ids).collect();
        let mut kept = Tokens::default();
        for (token, id) in tokens.iter() {
            if memchr::memchr(b' ', token).is_some() {
                extra.set(id, token);
            } else if token.len() <= 1 || !of_bytes.contains(&id) {
                let token = String::from_utf8_lossy(token).replace(MARKER, " ");
                kept.push(token.as_bytes(), id);
            }
        }
        for (byte, id) in (0..=255u8).zip(byte_tokens.iter().flat_map(|ids| **ids)) {
            extra.set(id, &[byte]);
        }
        Ok((kept, byte_tokens))
    }
}

type ByteTokens = Option<Box<[u32; 256]>>;

/// Returns the token of each byte; Gemma has none for the tab, which is a token itself and never falls back.
fn byte_tokens(tokens: &Tokens) -> Result<Box<[u32; 256]>> {
    let ids: HashMap<&[u8], u32> = tokens.iter().collect();
    let mut found = Box::new([0; 256]);
    for (byte, slot) in (0..=255u8).zip(found.iter_mut()) {
        let name = format!("<0x{byte:02X}>");
        let plain = || ids.get(&[byte][..]).filter(|_| byte.is_ascii());
        *slot = *ids
            .get(name.as_bytes())
            .or_else(plain)
            .ok_or_else(|| Error::Unsupported(format!("byte_fallback without the token {name}")))?;
    }
    Ok(found)
}

/// Tokens that decode but come out of no merge, in the order in which their ids were first named.
#[derive(Default)]
struct Extra {
    tokens: Vec<(Vec<u8>, u32)>,
    places: HashMap<u32, usize>,
}

impl Extra {
    fn set(&mut self, id: u32, token: &[u8]) {
        let place = *self.places.entry(id).or_insert(self.tokens.len());
        if place == self.tokens.len() {
            self.tokens.push((Vec::new(), id));
        }
        self.tokens[place].0 = token.to_vec();
    }

    /// Those whose ids are not used by a token.
    fn without(mut self, tokens: &Tokens) -> Vec<(Vec<u8>, u32)> {
        for id in tokens.ids() {
            self.places.remove(id);
        }
        self.tokens.retain(|(_, id)| self.places.contains_key(id));
        self.tokens
    }
}
