//! Which part of the text each token covers, by the rules of Hugging Face.
//!
//! HF adds up the lengths of a word's tokens in its own spelling of the text (two bytes for most bytes of a
//! byte-level model, three for the word marker), and looks up there which characters they cover. Text without a token
//! has no length, so the tokens after it in the same word are placed too early; that is reproduced here.

use super::added::{Part, Special};
use super::aligned::{range, Aligned};
use super::normalize::Step;
use super::pool::Scratch;
use super::trim::{blanks_of, Blanks};
use super::{spelled, Codec, Place, Splitter};
use crate::bpe::WordCut;
use crate::pages::room;
use crate::spelling::{byte_of, char_of};
use crate::Result;

/// A token and the characters `start..end` of the text that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The token.
    pub id: u32,
    /// First character.
    pub start: usize,
    /// One past the last character.
    pub end: usize,
    /// The white space at the ends of an added token, taken from the text.
    pub(super) blanks: Option<Blanks>,
}

impl Placed {
    fn new(id: u32, (start, end): (usize, usize), blanks: Option<Blanks>) -> Self {
        Self { id, start, end, blanks }
    }
}

impl Codec {
    /// Returns the ids of one text with their places; a token that is part of a character covers the whole character, and
    /// tokens of the template cover nothing.
    pub fn encode_placed(
        &self,
        text: &str,
        special: Special,
        template: bool,
    ) -> Result<Vec<Placed>> {
        let mut tokens = self.place_in_bytes(text, special)?;
        let count = characters(text);
        for token in &mut tokens {
            (token.start, token.end) = (count[token.start], count[token.end]);
        }
        self.trim(&mut tokens, template);
        if template {
            let nowhere = |id: &u32| Placed::new(*id, (0, 0), None);
            tokens.splice(0..0, self.template.0.iter().map(nowhere));
            tokens.extend(self.template.1.iter().map(nowhere));
        }
        Ok(tokens)
    }

    fn place_in_bytes(&self, text: &str, special: Special) -> Result<Vec<Placed>> {
        let mut scratch = self.pool.take(&self.bpe, text.len());
        let mut out = Vec::new();
        let mut parts = Vec::new();
        split_or_whole(self.raw.as_ref(), text, special, &mut parts)?;
        for part in parts {
            let Part { start, end, .. } = part;
            if let Some(id) = part.id {
                out.push(Placed::new(id, (start, end), Some(blanks_of(&text[start..end]))));
                continue;
            }
            let aligned = Aligned::new(&text[start..end], start).normalize(&self.normalizer)?;
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
                let place = text.original(part.start, part.end);
                let blanks = blanks_of(&text.text[part.start..part.end]);
                out.push(Placed::new(id, place, Some(blanks)));
                continue;
            }
            let place = Place { at: base + part.start, continued: false };
            self.place_text(text.slice(part.start, part.end), place, scratch, out)?;
        }
        Ok(())
    }

    fn place_text(
        &self,
        mut text: Aligned,
        place: Place,
        scratch: &mut Scratch,
        out: &mut Vec<Placed>,
    ) -> Result<()> {
        if self.spaced {
            text = text.normalize(&[Step::Replace("▁".into(), " ".into())])?;
        }
        if self.wants_prefix(&text.text, place) {
            text = text.normalize(&[Step::Prepend(" ".into())])?;
        }
        let mut parts = Vec::new();
        split_or_whole(self.pieces.as_ref(), &text.text, Special::Text, &mut parts)?;
        for part in parts {
            if let Some(id) = part.id {
                let blanks = blanks_of(&text.text[part.start..part.end]);
                let place = text.original(part.start, part.end);
                out.push(Placed::new(id, place, Some(blanks)));
                continue;
            }
            self.place_between(&text.slice(part.start, part.end), scratch, out)?;
        }
        Ok(())
    }

    fn place_between(
        &self,
        text: &Aligned,
        scratch: &mut Scratch,
        out: &mut Vec<Placed>,
    ) -> Result<()> {
        let spelling = Spelling::new(self, text);
        let mut ids = Vec::new();
        let mut outcome = Ok(());
        self.for_each_word(&text.text, &spelling, |at, word| {
            ids.clear();
            if outcome.is_ok() {
                outcome = self.encode_word(word, scratch, &mut ids);
            }
            self.place_word(&ids, word, &spelling.places[at..], out);
        })?;
        outcome
    }

    /// Calls `visit` with each word that the model gets, and its place in the spelling.
    fn for_each_word(
        &self,
        text: &str,
        spelling: &Spelling,
        mut visit: impl FnMut(usize, &str),
    ) -> Result<()> {
        let start_of =
            |piece: &[u8], whole: &str| piece.as_ptr() as usize - whole.as_ptr() as usize;
        match &self.splitter {
            Splitter::Scan(scanner) => scanner.for_each_piece(text, |piece| {
                let start = start_of(piece, text);
                visit(spelling.at[start], &text[start..start + piece.len()]);
            }),
            Splitter::Spelled(spelled) => {
                let mut outcome = Ok(());
                spelled.before.for_each_piece(text, |piece| {
                    let first = spelling.at[start_of(piece, text)];
                    let word: String = piece.iter().map(|&byte| char_of(byte)).collect();
                    let inner = spelled.for_each_word(piece, &word, |part| {
                        visit(first + start_of(part.as_bytes(), &word), part);
                    });
                    if inner.is_err() {
                        outcome = inner;
                    }
                })?;
                outcome
            }
            Splitter::Whole if text.is_empty() => Ok(()),
            Splitter::Whole => {
                visit(0, text);
                Ok(())
            }
            Splitter::Words => {
                let mut start = 0;
                while start < text.len() {
                    let next = memchr::memchr(b' ', &text.as_bytes()[start + 1..]);
                    let end = next.map_or(text.len(), |at| start + 1 + at);
                    visit(spelling.at[start], &text[start..end]);
                    start = end;
                }
                Ok(())
            }
        }
    }

    fn encode_word(&self, word: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) -> Result<()> {
        let mut writer = self.bpe.writer(&mut scratch.state, ids);
        match &self.splitter {
            Splitter::Spelled(spelled) => spelled.encode_word(word, &mut writer),
            Splitter::Scan(_) => writer.encode_piece(word),
            Splitter::Whole => writer.encode_words(word, WordCut::Runs),
            Splitter::Words => writer.encode_words(word, WordCut::Each),
        }
    }

    fn place_word(
        &self,
        ids: &[u32],
        word: &str,
        places: &[(usize, usize)],
        out: &mut Vec<Placed>,
    ) {
        let unknown = self.bpe.unknown();
        let mut unknown_lens = Vec::new();
        if unknown.is_some_and(|unknown| ids.contains(&unknown.id)) {
            unknown_lens = self.unknown_lens(word, unknown.is_some_and(|unknown| unknown.fused));
        }
        let mut unknown_lens = unknown_lens.into_iter();
        let mut at = 0;
        for &id in ids {
            let stands_in = unknown.is_some_and(|unknown| unknown.id == id);
            let len = stands_in
                .then(|| unknown_lens.next())
                .flatten()
                .unwrap_or_else(|| self.spelled_len(id));
            let end = (at + len).min(places.len());
            out.push(Placed::new(id, range(&places[at..end]), None));
            at = end;
        }
    }

    /// Returns the length of a token in HF's spelling.
    fn spelled_len(&self, id: u32) -> usize {
        let token = self.bpe.vocabulary().bytes_of(id).unwrap_or_default();
        match self.splitter {
            Splitter::Scan(_) => token.iter().map(|&byte| char_of(byte).len_utf8()).sum(),
            Splitter::Spelled(_) => {
                spelled::bytes_of(token).iter().map(|&byte| char_of(byte).len_utf8()).sum()
            }
            _ => token.iter().map(|&byte| marker_len(byte)).sum(),
        }
    }

    /// Returns the length of the text that each unknown token of a word covers.
    fn unknown_lens(&self, word: &str, fused: bool) -> Vec<usize> {
        let mut lens: Vec<usize> = Vec::new();
        let mut was_unknown = false;
        let spelled;
        let units: &str = match self.splitter {
            Splitter::Scan(_) => {
                spelled = word.bytes().map(char_of).collect::<String>();
                &spelled
            }
            _ => word,
        };
        for (at, unit) in units.char_indices() {
            let len = match self.splitter {
                Splitter::Whole | Splitter::Words if unit == ' ' => marker_len(b' '),
                _ => unit.len_utf8(),
            };
            let known = match &self.splitter {
                Splitter::Scan(_) => byte_of(unit).is_some_and(|b| self.bpe.knows_byte(b)),
                Splitter::Spelled(spelled) => {
                    let last = at + unit.len_utf8() == units.len();
                    spelled.unit(unit, last).is_some_and(|unit| self.bpe.knows(unit))
                }
                _ => self.bpe.knows(unit),
            };
            match lens.last_mut() {
                Some(last) if !known && was_unknown && fused => *last += len,
                _ if !known => lens.push(len),
                _ => {}
            }
            was_unknown = !known;
        }
        lens
    }
}

/// Returns how many characters start before each byte, and before the end.
fn characters(text: &str) -> Vec<usize> {
    let mut counts = vec![0; text.len() + 1];
    let mut count = 0;
    for (at, slot) in counts.iter_mut().enumerate() {
        *slot = count;
        count += usize::from(at < text.len() && text.is_char_boundary(at + 1));
    }
    counts
}

/// Returns the number of bytes in HF's spelling for a byte of a character-level model's text, in which the word marker is
/// kept as a space.
fn marker_len(byte: u8) -> usize {
    if byte == b' ' {
        '▁'.len_utf8()
    } else {
        1
    }
}

/// A text in HF's spelling: the place that each of its bytes comes from.
struct Spelling {
    places: Vec<(usize, usize)>,
    /// Where each byte of the text starts in `places`.
    at: Vec<usize>,
}

impl Spelling {
    fn new(codec: &Codec, text: &Aligned) -> Self {
        let mut spelling = Self { places: room(2 * text.text.len()), at: room(text.text.len()) };
        for (byte, place) in text.text.bytes().zip(&text.origin) {
            let len = match codec.splitter {
                Splitter::Whole | Splitter::Words => marker_len(byte),
                _ => char_of(byte).len_utf8(),
            };
            spelling.at.push(spelling.places.len());
            spelling.places.resize(spelling.places.len() + len, *place);
        }
        spelling
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
        parts.push(Part { id: None, start: 0, end: text.len() });
    }
    Ok(())
}
