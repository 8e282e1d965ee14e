//! Which part of the text each token stands for.
//!
//! The ids come from the ordinary path, segment by segment; since tokens spell the normalized text, their
//! lengths place them in it, and the alignment of the normalizer places that in the original.

use std::borrow::Cow;

use super::added::{Part, Special};
use super::normalize::{normalize_aligned, Aligned, Step};
use super::pool::Scratch;
use super::{spelled, Codec, Place, Splitter};
use crate::Result;

/// A token and the bytes `start..end` of the text that it stands for; both ends are at characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The token.
    pub id: u32,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Codec {
    /// The ids of one text with their places; a token that is part of a character has the whole of it.
    pub fn encode_placed(&self, text: &str, special: Special) -> Result<Vec<Placed>> {
        let mut scratch = self.pool.take(&self.bpe, text.len());
        let mut out = Vec::new();
        let mut parts = Vec::new();
        split_or_whole(self.raw.as_ref(), text, special, &mut parts)?;
        for part in parts {
            let Part { start, end, .. } = part;
            if let Some(id) = part.id {
                out.push(Placed { id, start, end });
                continue;
            }
            let aligned = Aligned::new(&text[start..end], start);
            let aligned = normalize_aligned(&self.normalizer, aligned)?;
            self.place_normalized(&aligned, special, start, &mut scratch, &mut out)?;
        }
        self.pool.give(scratch);
        Ok(out)
    }

    fn place_normalized(
        &self,
        text: &Aligned,
        special: Special,
        base: usize,
        scratch: &mut Scratch,
        out: &mut Vec<Placed>,
    ) -> Result<()> {
        let mut parts = Vec::new();
        split_or_whole(self.normalized.as_ref(), &text.text, special, &mut parts)?;
        for part in parts {
            if let Some(id) = part.id {
                let (start, end) = text.original(part.start, part.end);
                out.push(Placed { id, start, end });
                continue;
            }
            let place = Place {
                at: base + part.start,
                continued: false,
            };
            self.place_text(text.slice(part.start, part.end), place, scratch, out)?;
        }
        Ok(())
    }

    fn place_text(
        &self,
        text: Aligned,
        place: Place,
        scratch: &mut Scratch,
        out: &mut Vec<Placed>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        self.encode_normal(&text.text, place, scratch, &mut ids)?;
        self.bpe.finish(&mut scratch.state, &mut ids);
        let mut steps = Vec::new();
        if self.spaced {
            steps.push(Step::Replace("▁".into(), " ".into()));
        }
        let mut text = normalize_aligned(&steps, text)?;
        if self.wants_prefix(&text.text, place) {
            text = normalize_aligned(&[Step::Prepend(" ".into())], text)?;
        }
        let bytes = text.text.as_bytes();
        let mut at = 0;
        for id in ids {
            let token = self.bpe.vocabulary().bytes_of(id).unwrap_or_default();
            let token = match self.splitter {
                Splitter::Spelled(_) => Cow::Owned(spelled::bytes_of(token)),
                _ => Cow::Borrowed(token),
            };
            // A pattern may drop text between pieces: the token is where it is next spelled.
            let start = memchr::memmem::find(&bytes[at..], &token).map_or(at, |skip| at + skip);
            let end = (start + token.len()).min(bytes.len());
            let (from, to) = text.original(start, end.max(start));
            out.push(Placed {
                id,
                start: from,
                end: to,
            });
            at = end;
        }
        Ok(())
    }
}

fn split_or_whole(
    matcher: Option<&super::Matcher>,
    text: &str,
    special: Special,
    parts: &mut Vec<Part>,
) -> Result<()> {
    if let Some(matcher) = matcher {
        return matcher.split(text, special, parts);
    }
    if !text.is_empty() {
        parts.push(Part {
            id: None,
            start: 0,
            end: text.len(),
        });
    }
    Ok(())
}
