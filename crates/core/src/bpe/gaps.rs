//! Bytes that text may contain but that no token covers, in vocabularies trained without the whole alphabet.
//!
//! Hugging Face drops such a byte, so that its neighbours may then merge, or puts the unknown token there, if the
//! model has one. Such bytes are rare (`StarCoder` lacks those that start the planes beyond the third), so a text
//! without any costs one pass over its bytes.

use super::symbols::Symbols;
use super::{Bpe, EncodeState, Unknown, NONE};
use crate::scan::Scanner;
use crate::{Error, Result};

/// The bytes that are missing.
pub(crate) struct Gaps {
    missing: [bool; 256],
    first: u8,
    last: u8,
    unknown: Option<Unknown>,
}

impl Gaps {
    /// Returns the gaps of an alphabet of bytes; none where every byte of UTF-8 is a token.
    pub(crate) fn new(symbols: &Symbols, unknown: Option<Unknown>) -> Option<Self> {
        let Symbols::Bytes(letters) = symbols else {
            return None;
        };
        let in_text = |byte: u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..=0xFF);
        let is_missing = |byte: u8| letters[usize::from(byte)] == NONE && in_text(byte);
        let first = (0..=255).find(|&byte| is_missing(byte))?;
        let last = (0..=255).rfind(|&byte| is_missing(byte))?;
        Some(Self {
            missing: std::array::from_fn(|byte| is_missing(byte as u8)),
            first,
            last,
            unknown,
        })
    }

    /// Returns the error for vocabularies that do not say what becomes of such a byte: tiktoken cannot encode it either.
    pub(crate) fn refuse(&self) -> Error {
        Error::Tokenizer(format!(
            "no token for the byte 0x{:02X}: text that holds it could not be encoded; a byte-level vocabulary needs \
             all single bytes",
            self.first
        ))
    }

    /// Returns whether a byte is missing.
    pub(crate) fn has(&self, byte: u8) -> bool {
        self.missing[usize::from(byte)]
    }

    /// Returns whether some byte of a text is missing.
    fn any_in(&self, text: &[u8]) -> bool {
        let (first, width) = (self.first, self.last - self.first);
        // Without an early exit, so that many bytes are compared at once.
        let near = |chunk: &[u8]| {
            chunk.iter().fold(false, |any, byte| any | (byte.wrapping_sub(first) <= width))
        };
        text.chunks(4096).any(|chunk| near(chunk) && chunk.iter().any(|&byte| self.has(byte)))
    }
}

impl Bpe {
    /// Returns whether some byte of a text is not a token.
    pub(crate) fn lacks(&self, text: &[u8]) -> bool {
        let gaps = self.tables().gaps.as_ref();
        gaps.is_some_and(|gaps| gaps.any_in(text))
    }

    /// Appends the ids of a text in which bytes are missing.
    pub(super) fn encode_with_gaps(
        &self,
        scanner: &Scanner,
        text: &str,
        state: &mut EncodeState,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        scanner.for_each_piece(text, |piece| {
            if self.lacks(piece) {
                self.encode_gapped(piece, state, out);
            } else {
                self.encode_other(piece, 0, piece.len(), 0, state, out);
            }
        })
    }

    /// Appends the ids of a piece in which bytes are missing.
    pub(super) fn encode_gapped(&self, piece: &[u8], state: &mut EncodeState, out: &mut Vec<u32>) {
        let tables = self.tables();
        let Some(gaps) = &tables.gaps else {
            return;
        };
        if let Some(id) = tables.whole.get(piece) {
            return out.push(*id);
        }
        let Some(unknown) = gaps.unknown else {
            let kept: Vec<u8> = piece.iter().copied().filter(|&b| !gaps.has(b)).collect();
            if !kept.is_empty() {
                tables.merge(&kept, &mut state.scratch, out);
            }
            return;
        };
        for run in piece.chunk_by(|&a, &b| gaps.has(a) == gaps.has(b)) {
            if gaps.has(run[0]) {
                let count = if unknown.fused { 1 } else { run.len() };
                out.extend(std::iter::repeat_n(unknown.id, count));
            } else {
                tables.merge(run, &mut state.scratch, out);
            }
        }
    }
}
