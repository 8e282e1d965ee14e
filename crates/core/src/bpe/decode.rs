//! From token ids back to bytes.

use super::vocabulary::{Entry, ARENA_SLACK};
use super::{Bpe, NONE};
use crate::{Error, Result};

/// Ids that are looked up, measured and then copied together.
const BATCH: usize = 128;
/// Most tokens are shorter than this: one copy of fixed size needs no loop and no call.
const STRIDE: usize = ARENA_SLACK;

impl Bpe {
    /// Appends the bytes of all tokens: `[15339, 1917] -> b"hello world"`.
    pub fn decode_into(&self, ids: &[u32], out: &mut Vec<u8>) -> Result<()> {
        let entries = self.vocabulary().entries();
        let mut found = [Entry { start: 0, len: 0 }; BATCH];
        for (batch, ids) in ids.chunks(BATCH).enumerate() {
            let mut total = 0;
            for (slot, id) in found.iter_mut().zip(ids) {
                *slot = entries.get(*id as usize).copied().unwrap_or(Entry {
                    start: 0,
                    len: NONE,
                });
                total += slot.len as usize;
            }
            if let Some(at) = found[..ids.len()]
                .iter()
                .position(|entry| entry.len == NONE)
            {
                return Err(self.unknown(ids[at], batch * BATCH + at));
            }
            out.reserve(total + STRIDE);
            self.copy(&found[..ids.len()], out);
        }
        Ok(())
    }

    /// Copies tokens to the end of `out`, which has room for all of them and one stride more.
    fn copy(&self, tokens: &[Entry], out: &mut Vec<u8>) {
        let arena = self.vocabulary().arena().as_ptr();
        let mut len = out.len();
        let to = out.as_mut_ptr();
        for token in tokens {
            // SAFETY: an entry's bytes lie in the arena, which goes on for `ARENA_SLACK` bytes after the
            // last one, so a full stride may be read; the caller reserved all lengths plus one stride
            // beyond `out.len()`, and what a stride writes too much is overwritten or cut off.
            unsafe {
                let from = arena.add(token.start as usize);
                if token.len as usize <= STRIDE {
                    std::ptr::copy_nonoverlapping(from, to.add(len), STRIDE);
                } else {
                    std::ptr::copy_nonoverlapping(from, to.add(len), token.len as usize);
                }
            }
            len += token.len as usize;
        }
        // SAFETY: `len` grew by what was reserved, and every byte below it was written above.
        unsafe { out.set_len(len) };
    }

    fn unknown(&self, id: u32, at: usize) -> Error {
        Error::Input(format!(
            "token id {id} at position {at} is not in the vocabulary, whose largest id is {}",
            self.vocabulary().id_limit().saturating_sub(1)
        ))
    }
}
