//! The first symbols of a piece, before any merge.

use std::collections::HashMap;

use super::{Alphabet, Tokens, Unknown, Vocabulary, NONE};

/// How text becomes its first symbols. Symbols `0..len()` are the alphabet; products come after.
pub(crate) enum Symbols {
    /// Symbol of each byte; [`NONE`] for bytes without a token, which never get here (see `gaps`).
    Bytes(Box<[u32; 256]>),
    /// Symbols of characters.
    Chars(CharSymbols),
}

/// Symbols of characters, and the stand-ins for characters that are not tokens.
pub(crate) struct CharSymbols {
    /// Symbol of each character of the basic plane.
    basic: Vec<u32>,
    astral: HashMap<u32, u32>,
    /// How many characters are tokens; their symbols come first.
    letters: u32,
    bytes: Option<Box<[u32; 256]>>,
    unk: Option<u32>,
    fuse_unk: bool,
}

impl Symbols {
    /// Numbers the alphabet; also returns the token id of each symbol.
    pub(crate) fn new(
        alphabet: &Alphabet,
        unknown: Option<Unknown>,
        tokens: &Tokens,
        vocabulary: &Vocabulary,
    ) -> (Self, Vec<u32>) {
        match alphabet {
            Alphabet::Bytes => Self::of_bytes(vocabulary),
            Alphabet::Chars { byte_tokens } => {
                let mut ids = Vec::new();
                let mut chars = CharSymbols {
                    basic: vec![NONE; 0x10000],
                    astral: HashMap::new(),
                    letters: 0,
                    bytes: None,
                    unk: None,
                    fuse_unk: unknown.is_some_and(|unknown| unknown.fused),
                };
                for (token, id) in tokens.iter() {
                    if let Some(character) = single_char(token) {
                        chars.insert(character, ids.len() as u32);
                        ids.push(id);
                    }
                }
                chars.letters = ids.len() as u32;
                if let Some(byte_tokens) = byte_tokens {
                    let first = ids.len() as u32;
                    chars.bytes = Some(Box::new(std::array::from_fn(|byte| first + byte as u32)));
                    ids.extend_from_slice(&byte_tokens[..]);
                }
                if let Some(unknown) = unknown {
                    chars.unk = Some(ids.len() as u32);
                    ids.push(unknown.id);
                }
                (Self::Chars(chars), ids)
            }
        }
    }

    fn of_bytes(vocabulary: &Vocabulary) -> (Self, Vec<u32>) {
        let mut symbols = [NONE; 256];
        let mut ids = Vec::with_capacity(256);
        for byte in 0..=255u8 {
            if let Some(id) = vocabulary.id_of(&[byte]) {
                symbols[usize::from(byte)] = ids.len() as u32;
                ids.push(id);
            }
        }
        (Self::Bytes(Box::new(symbols)), ids)
    }

    /// Appends the first symbols of `piece`.
    pub(crate) fn of_piece(&self, piece: &[u8], out: &mut Vec<u32>) {
        match self {
            Self::Bytes(symbols) => {
                out.extend(piece.iter().map(|byte| symbols[usize::from(*byte)]));
            }
            Self::Chars(chars) => chars.of_piece(piece, out),
        }
    }

    /// Like [`Self::of_piece`], but returns `false` if part of the token is not in the alphabet itself.
    pub(crate) fn of_token(&self, token: &[u8], out: &mut Vec<u32>) -> bool {
        match self {
            Self::Bytes(_) => {
                self.of_piece(token, out);
                !out.contains(&NONE)
            }
            Self::Chars(chars) => {
                let Ok(text) = std::str::from_utf8(token) else {
                    return false;
                };
                out.extend(text.chars().map(|character| chars.get(character)));
                !out.contains(&NONE)
            }
        }
    }

    /// Returns whether a character is a token.
    pub(crate) fn knows(&self, character: char) -> bool {
        match self {
            Self::Bytes(_) => false,
            Self::Chars(chars) => chars.get(character) != NONE,
        }
    }

    /// Returns whether a symbol of the alphabet is a token of its own, not a stand-in.
    pub(crate) fn is_letter(&self, symbol: u32) -> bool {
        match self {
            Self::Bytes(symbols) => symbol < symbols.len() as u32,
            Self::Chars(chars) => symbol < chars.letters,
        }
    }

    /// Returns whether each character's symbols depend on that character alone, so that a piece may be cut.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Bytes(_) => true,
            Self::Chars(chars) => chars.bytes.is_some(),
        }
    }

    /// Returns whether the symbols before and after a word's space never depend on each other.
    pub(crate) fn keeps_words_apart(&self) -> bool {
        match self {
            Self::Bytes(_) => true,
            // Without a stand-in, an unknown character vanishes and its neighbours meet.
            Self::Chars(chars) => {
                chars.get(' ') != NONE && (chars.bytes.is_some() || chars.unk.is_some())
            }
        }
    }
}

impl CharSymbols {
    fn insert(&mut self, character: char, symbol: u32) {
        let code = character as u32;
        match self.basic.get_mut(code as usize) {
            Some(slot) => *slot = symbol,
            None => {
                self.astral.insert(code, symbol);
            }
        }
    }

    #[inline]
    fn get(&self, character: char) -> u32 {
        let code = character as u32;
        match self.basic.get(code as usize) {
            Some(symbol) => *symbol,
            None => self.astral.get(&code).copied().unwrap_or(NONE),
        }
    }

    fn of_piece(&self, piece: &[u8], out: &mut Vec<u32>) {
        let mut unknown = false;
        // Pieces are cut from valid UTF-8 at character boundaries; anything else would be a bug of ours, and the
        // replacement characters would show it.
        let text = String::from_utf8_lossy(piece);
        for character in text.chars() {
            let symbol = self.get(character);
            let was_unknown = std::mem::replace(&mut unknown, symbol == NONE);
            if symbol != NONE {
                out.push(symbol);
            } else if let Some(bytes) = &self.bytes {
                let mut buffer = [0; 4];
                let encoded = character.encode_utf8(&mut buffer).bytes();
                out.extend(encoded.map(|byte| bytes[usize::from(byte)]));
            } else if let Some(unk) = self.unk {
                if !(was_unknown && self.fuse_unk) {
                    out.push(unk);
                }
            }
        }
    }
}

fn single_char(token: &[u8]) -> Option<char> {
    let mut chars = std::str::from_utf8(token).ok()?.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}
