//! The part of a byte-level vocabulary that can matter for a text, spelled as a `tokenizer.json` spells it.
//!
//! A merge makes a token only where the bytes of that token stand in the text. So tokens that do not occur in it can
//! be left out, with the merges that make them, and any BPE engine gives the same ids for that text: a merge that
//! is left out never applied. Loading what is left of 50,000 tokens takes Hugging Face a tenth of the time.
//!
//! Whether a token occurs is answered by a set of hashed windows of up to eight bytes, which may say yes in error: that
//! keeps a token too many, and changes nothing.

use std::fmt::Write;

use super::alphabet;
use crate::bpe::{MergeList, Tokens};

/// Longer tokens are looked for by their windows of this many bytes.
const WINDOW: usize = 8;
const BITS: u32 = 22;

/// The members of `model.vocab` and `model.merges` as JSON, for texts in which only what is in `text` occurs.
///
/// `None` where the products of the merges are not known.
pub fn part(tokens: &Tokens, merges: &MergeList, text: &[u8]) -> Option<(String, String)> {
    let products = merges.products()?;
    let windows = Windows::of(text);
    let limit = tokens.ids().iter().max().map_or(0, |id| *id as usize + 1);
    let mut spelled = vec![String::new(); limit];
    let mut vocabulary = String::from("{");
    for (token, id) in tokens.iter().filter(|(token, _)| windows.have(token)) {
        let spelling = &mut spelled[id as usize];
        alphabet::spell_in_json(token, spelling);
        separate(&mut vocabulary);
        // Writing to a string cannot fail.
        let _ = write!(vocabulary, "\"{spelling}\":{id}");
    }
    vocabulary.push('}');
    let mut listed = String::from("[");
    for ((left, right), product) in merges.pairs().iter().zip(products) {
        let kept = |id: &u32| spelled.get(*id as usize).filter(|each| !each.is_empty());
        // A product that was kept in error may lack a part.
        if let (Some(left), Some(right), Some(_)) = (kept(left), kept(right), kept(product)) {
            separate(&mut listed);
            let _ = write!(listed, "\"{left} {right}\"");
        }
    }
    listed.push(']');
    Some((vocabulary, listed))
}

fn separate(out: &mut String) {
    if out.len() > 1 {
        out.push(',');
    }
}

/// Which windows of one to eight bytes a text has, by their hashes.
struct Windows {
    bits: Vec<u64>,
}

impl Windows {
    fn of(text: &[u8]) -> Self {
        let mut windows = Self {
            bits: vec![0; 1 << (BITS - 6)],
        };
        for start in 0..text.len() {
            let mut window = 0;
            for (length, byte) in (1..).zip(text[start..].iter().take(WINDOW)) {
                window = window << 8 | u64::from(*byte);
                let (word, bit) = place(window, length);
                windows.bits[word] |= bit;
            }
        }
        windows
    }

    /// Whether the text may have these bytes; surely not where it has not. Single bytes always count as there.
    fn have(&self, token: &[u8]) -> bool {
        let length = token.len().min(WINDOW);
        length < 2
            || token.windows(length).all(|part| {
                let window = part.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
                let (word, bit) = place(window, length);
                self.bits[word] & bit != 0
            })
    }
}

fn place(window: u64, length: usize) -> (usize, u64) {
    let mixed = (window ^ (length as u64) << 59).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> (64 - BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> (Tokens, MergeList) {
        let names: [&[u8]; 8] = [
            b"a",
            b"b",
            b"\"",
            b" ",
            b"ab",
            b" ab",
            b"abab",
            b"ababababab",
        ];
        let tokens = names.into_iter().zip(3..).collect();
        let pairs = vec![(3, 4), (6, 7), (7, 7), (9, 9)];
        let merges = MergeList::checked(pairs, vec![7, 8, 9, 10]);
        (tokens, merges.unwrap_or_default())
    }

    #[test]
    fn only_what_occurs_is_kept() {
        let (tokens, merges) = list();
        let found = part(&tokens, &merges, b"abab\"");
        let vocabulary = r#"{"a":3,"b":4,"\"":5,"Ġ":6,"ab":7,"abab":9}"#;
        let wanted = (vocabulary.to_string(), r#"["a b","ab ab"]"#.to_string());
        assert_eq!(found, Some(wanted));
    }

    #[test]
    fn long_tokens_are_found_by_their_windows() {
        let windows = Windows::of(b"the quick brown fox");
        for token in [
            "t",
            "th",
            "the quick brown fox",
            "uick br",
            "zz zz zz z",
            "fox the qu",
        ] {
            let occurs = "the quick brown fox".contains(token);
            assert!(!occurs || windows.have(token.as_bytes()), "{token}");
        }
        assert!(!windows.have(b"the quick brown dog"));
        assert!(windows.have(b"z"));
    }

    #[test]
    fn nothing_is_guessed_without_products() {
        let (tokens, merges) = list();
        let unchecked = MergeList::from(merges.pairs().to_vec());
        assert_eq!(part(&tokens, &unchecked, b"ab"), None);
    }
}
