//! The scanner's pieces, as the encoder takes them.

use crate::bpe::{Bpe, EncodeState, Pieces};
use crate::scan::{Scanner, Spans};
use crate::{Error, Result};

/// Piece ends of a scanner that keeps every byte; an error ends the text and waits to be asked for.
struct Ends<'a> {
    spans: Spans<'a>,
    error: &'a mut Option<Error>,
}

impl Pieces for Ends<'_> {
    fn fill(&mut self, ends: &mut [u32]) -> usize {
        self.spans.fill(ends).unwrap_or_else(|error| {
            *self.error = Some(error);
            0
        })
    }
}

/// One piece.
struct Whole(u32);

impl Pieces for Whole {
    fn fill(&mut self, ends: &mut [u32]) -> usize {
        let end = std::mem::take(&mut self.0);
        if end == 0 || ends.is_empty() {
            return 0;
        }
        ends[0] = end;
        1
    }
}

/// Appends the ids of `text`.
pub(super) fn encode(
    bpe: &Bpe,
    scanner: &Scanner,
    text: &str,
    state: &mut EncodeState,
    out: &mut Vec<u32>,
) -> Result<()> {
    if scanner.tiles() {
        let mut error = None;
        let ends = Ends {
            spans: scanner.spans(text),
            error: &mut error,
        };
        bpe.encode_pieces(ends, text, state, out);
        return error.map_or(Ok(()), Err);
    }
    let start = text.as_ptr() as usize;
    scanner.for_each_piece(text, |piece| {
        let at = piece.as_ptr() as usize - start;
        let piece = &text[at..at + piece.len()];
        bpe.encode_pieces(Whole(piece.len() as u32), piece, state, out);
    })
}
