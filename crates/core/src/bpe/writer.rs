//! The only way to produce ids: a writer holds the output, and hands it back complete.
//!
//! Pieces that are not in the cache are merged together, even across texts, and short texts are encoded together too;
//! so while texts are being written, some ids are missing from the output. Callers cannot see that: the output is
//! borrowed until the writer is dropped, and by then they are in their places.

use super::words::Words;
use super::{Bpe, EncodeState, Pieces, WordCut};
use crate::scan::Scanner;
use crate::Result;

/// Appends the ids of texts to an output.
pub struct Writer<'a> {
    bpe: &'a Bpe,
    state: &'a mut EncodeState,
    out: &'a mut Vec<u32>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bpe: &'a Bpe, state: &'a mut EncodeState, out: &'a mut Vec<u32>) -> Self {
        Self { bpe, state, out }
    }

    /// Appends ids supplied by the caller.
    #[inline]
    pub fn extend(&mut self, ids: impl IntoIterator<Item = u32>) {
        let gathered = &mut self.state.gathered;
        if gathered.is_empty() {
            return self.out.extend(ids);
        }
        ids.into_iter().for_each(|id| gathered.mark(Some(id)));
    }

    /// Appends the ids of `text`, cut into pieces by `scanner`: `"hello world" -> [15339, 1917]`.
    pub fn encode(&mut self, scanner: &Scanner, text: &str) -> Result<()> {
        let (state, out) = (&mut *self.state, &mut *self.out);
        if self.bpe.lacks(text.as_bytes()) {
            self.bpe.encode_gathered(state, out);
            return self.bpe.encode_with_gaps(scanner, text, state, out);
        }
        if self.bpe.gather(scanner, text, state, out)? {
            return Ok(());
        }
        self.encode_pieces(scanner.spans(text), text)
    }

    /// Appends the ids of SentencePiece-style text, in which the word marker is written as a space.
    pub fn encode_words(&mut self, text: &str, cut: WordCut) -> Result<()> {
        let cut = if cut == WordCut::Runs { self.bpe.tables().word_cut } else { cut };
        self.encode_pieces(Words::new(text, cut), text)
    }

    /// Appends the ids of one piece.
    pub fn encode_piece(&mut self, piece: &str) -> Result<()> {
        if self.bpe.lacks(piece.as_bytes()) {
            self.bpe.encode_gathered(self.state, self.out);
            self.bpe.encode_gapped(piece.as_bytes(), self.state, self.out);
            return Ok(());
        }
        self.encode_pieces(Words::new(piece, WordCut::Never), piece)
    }

    /// Appends the ids of `text`, whose pieces come from `pieces`.
    pub fn encode_pieces(&mut self, mut pieces: impl Pieces, text: &str) -> Result<()> {
        // Taken out of the state, which is borrowed meanwhile.
        let mut room = std::mem::take(&mut self.state.ends);
        let (state, out) = (&mut *self.state, &mut *self.out);
        self.bpe.encode_gathered(state, out);
        let outcome = self.bpe.encode_filled(&mut pieces, text, &mut room, state, out);
        self.state.ends = room;
        outcome
    }

    /// Records that a text ends here; [`EncodeState::take_ends`] gives its place once the writer has been dropped.
    pub fn end_text(&mut self) {
        if self.state.gathered.is_empty() {
            self.state.pending.end(self.out);
        } else {
            self.state.gathered.mark(None);
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.bpe.encode_gathered(self.state, self.out);
        self.bpe.finish(self.state, self.out);
    }
}
