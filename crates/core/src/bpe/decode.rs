//! From token ids back to bytes.
//!
//! A token of up to 15 bytes is stored with its length in one 16-byte slot, and copied with one store of that size:
//! no loop, no call, and one cache line where an offset and then the bytes would take two. The lengths of all tokens
//! are added up first, so the bytes are written once, where the caller wants them.

use super::vocabulary::Vocabulary;
use super::Bpe;
use crate::{Error, Result};

const SLOT: usize = 16;
/// Bytes that fit in a slot next to their length.
const INLINE: u8 = SLOT as u8 - 1;
/// In place of the length: the token is too long for a slot.
const LONG: u8 = 0xFE;
/// In place of the length: no token has this id.
const HOLE: u8 = 0xFF;

/// One slot for each id; the last byte is the length.
pub(crate) struct Slots(Vec<[u8; SLOT]>);

impl Slots {
    fn new(vocabulary: &Vocabulary) -> Self {
        let slot = |id: usize| {
            let mut slot = [0; SLOT];
            slot[SLOT - 1] = match vocabulary.bytes_of(id as u32) {
                None => HOLE,
                Some(token) if token.len() > usize::from(INLINE) => LONG,
                Some(token) => {
                    slot[..token.len()].copy_from_slice(token);
                    token.len() as u8
                }
            };
            slot
        };
        Self((0..vocabulary.id_limit()).map(slot).collect())
    }
}

impl Bpe {
    /// Returns the number of bytes in all tokens together.
    pub fn decoded_len<I: Copy + Into<u32>>(&self, ids: &[I]) -> Result<usize> {
        let slots = &self.slots().0;
        let mut total = 0;
        for (at, id) in ids.iter().enumerate() {
            let id: u32 = (*id).into();
            let len = slots.get(id as usize).map_or(HOLE, |slot| slot[SLOT - 1]);
            total += match len {
                HOLE => return Err(self.no_such(id, at)),
                LONG => self.long(id).len(),
                len => usize::from(len),
            };
        }
        Ok(total)
    }

    /// Writes the bytes of all tokens: `[15339, 1917] -> b"hello world"`; `out` must be exactly as long as
    /// [`Self::decoded_len`] says.
    pub fn decode_to<I: Copy + Into<u32>>(&self, ids: &[I], out: &mut [u8]) -> Result<()> {
        let slots = &self.slots().0;
        let mut at = 0;
        for id in ids {
            let id: u32 = (*id).into();
            let slot = slots.get(id as usize).copied().unwrap_or([HOLE; SLOT]);
            let len = slot[SLOT - 1];
            let room = &mut out[at..];
            if len <= INLINE {
                match room.first_chunk_mut::<SLOT>() {
                    // The surplus is overwritten by the next token.
                    Some(room) => *room = slot,
                    None => copy(&slot[..usize::from(len)], room)?,
                }
                at += usize::from(len);
            } else {
                let token = self.long(id);
                copy(token, room)?;
                at += token.len();
            }
        }
        if at == out.len() {
            Ok(())
        } else {
            Err(misfit())
        }
    }

    /// Appends the bytes of all tokens.
    pub fn decode_into(&self, ids: &[u32], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + self.decoded_len(ids)?, 0);
        self.decode_to(ids, &mut out[start..])
    }

    #[cold]
    fn long(&self, id: u32) -> &[u8] {
        self.vocabulary().bytes_of(id).unwrap_or_default()
    }

    fn slots(&self) -> &Slots {
        self.slots.get_or_init(|| Slots::new(self.vocabulary()))
    }

    fn no_such(&self, id: u32, at: usize) -> Error {
        Error::Input(format!(
            "token id {id} at position {at} is not in the vocabulary, whose largest id is {}",
            self.vocabulary().id_limit().saturating_sub(1)
        ))
    }
}

fn copy(token: &[u8], room: &mut [u8]) -> Result<()> {
    let room = room.get_mut(..token.len()).ok_or_else(misfit)?;
    room.copy_from_slice(token);
    Ok(())
}

fn misfit() -> Error {
    Error::Internal("the buffer for decoded bytes does not have their size".into())
}
