//! The pieces that a text is cut into, for people who inspect a tokenizer's layers.

use super::{normalize, Codec, Place, Special, Splitter};
use crate::scan::Scanner;
use crate::Result;

impl Codec {
    /// Returns the end of every piece, in bytes of the normalized text; an added token is a piece of its own.
    pub fn piece_ends(&self, text: &str, special: Special) -> Result<Vec<usize>> {
        let mut parts = Vec::new();
        match &self.raw {
            Some(matcher) => matcher.split(text, special, &mut parts)?,
            None => return self.ends_of(text, 0, 0),
        }
        let (mut ends, mut at) = (Vec::new(), 0);
        for part in &parts {
            if part.id.is_some() {
                ends.push(at + part.end - part.start);
            } else {
                ends.extend(self.ends_of(&text[part.start..part.end], part.start, at)?);
            }
            at = ends.last().copied().unwrap_or(at);
        }
        Ok(ends)
    }

    fn ends_of(&self, text: &str, start: usize, shift: usize) -> Result<Vec<usize>> {
        let place = Place { at: start, continued: false };
        let normal = normalize::normalize(&self.normalizer, text)?;
        let normal = self.prefixed(self.in_spaces(&normal), place);
        let mut ends = Vec::new();
        match &self.splitter {
            Splitter::Scan(scanner) => scanned(scanner, &normal, shift, &mut ends)?,
            // The later cuts of a spelled model may not fall on whole characters, so they are not shown.
            Splitter::Spelled(spelled) => scanned(&spelled.before, &normal, shift, &mut ends)?,
            Splitter::Words => {
                let starts = memchr::memchr_iter(b' ', normal.as_bytes()).filter(|&at| at > 0);
                ends.extend(starts.map(|at| shift + at));
                ends.push(shift + normal.len());
            }
            Splitter::Whole => {
                let mut parts = Vec::new();
                if let Some(pieces) = &self.pieces {
                    pieces.split(&normal, Special::Text, &mut parts)?;
                }
                ends.extend(parts.iter().map(|part| shift + part.end));
                if parts.is_empty() {
                    ends.push(shift + normal.len());
                }
            }
        }
        Ok(ends)
    }
}

fn scanned(scanner: &Scanner, text: &str, shift: usize, ends: &mut Vec<usize>) -> Result<()> {
    let mut batch = [0; 256];
    let mut spans = scanner.spans(text);
    loop {
        let count = spans.fill(&mut batch)?;
        if count == 0 {
            return Ok(());
        }
        ends.extend(batch[..count].iter().map(|&end| shift + end as usize));
    }
}
