//! The two large parts of a Hugging Face `tokenizer.json`, `model.vocab` and `model.merges`, in one pass.
//!
//! All else is small and goes to Python's `json` as the outline: the same text with these two parts empty. So the
//! outline is valid exactly when the whole is, once the two parts are known to be.

use super::alphabet;
use super::index::Index;
use super::json::Cursor;
use super::LARGEST_ID;
use crate::bpe::{MergeList, Tokens};
use crate::jsonl::unescape;
use crate::records::Policy;

/// What a file holds.
pub struct HfFile {
    /// The file with `{}` for the vocabulary and `[]` for the merges.
    pub outline: Vec<u8>,
    /// The vocabulary.
    pub spellings: Spellings,
    /// The merges in the order of their ranks, each naming tokens that exist.
    pub merges: MergeList,
}

/// Tokens as a file spells them, and the way from a spelling to its id.
pub struct Spellings {
    tokens: Tokens,
    index: Index,
}

impl Spellings {
    /// `None` where two tokens have one spelling or one id.
    fn new(tokens: Tokens) -> Option<Self> {
        tokens.places()?;
        let index = Index::new(&tokens)?;
        Some(Self { tokens, index })
    }

    /// The id of a token.
    pub fn id_of(&self, spelling: &str) -> Option<u32> {
        self.index.get(&self.tokens, spelling.as_bytes())
    }

    /// The tokens as text.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The tokens as bytes, and apart from them those that the byte alphabet cannot spell.
    pub fn as_bytes(&self) -> (Tokens, Tokens) {
        let mut tokens = Tokens::with_room(self.tokens.len(), self.tokens.bytes().len());
        let mut outside = Tokens::default();
        for (spelling, id) in self.tokens.iter() {
            if !tokens.push_with(id, |out| alphabet::decode(spelling, out)) {
                outside.push(spelling, id);
            }
        }
        (tokens, outside)
    }
}

/// Reads a file; `None` asks the careful reader to look.
pub fn read(text: &[u8]) -> Option<HfFile> {
    simdutf8::basic::from_utf8(text).ok()?;
    let mut model = None;
    let mut cursor = Cursor { text, at: 0 };
    cursor.take(b'{')?;
    loop {
        let key = cursor.raw_string()?;
        cursor.take(b':')?;
        if key == b"model" && cursor.peek()? == b'{' {
            let found = read_model(&mut cursor)?;
            if model.replace(found).is_some() {
                return None;
            }
        } else {
            // An escaped key could spell "model" too.
            if memchr::memchr(b'\\', key).is_some() {
                return None;
            }
            cursor.skip()?;
        }
        if !cursor.more(b'}')? {
            break;
        }
    }
    cursor.space();
    if cursor.at != text.len() {
        return None;
    }
    let Model {
        parts,
        spellings,
        merges,
    } = model?;
    Some(HfFile {
        outline: without(text, parts),
        spellings,
        merges,
    })
}

/// A stretch of the text, and what stands for it in the outline.
type Part = (usize, usize, &'static [u8]);

struct Model {
    parts: [Part; 2],
    spellings: Spellings,
    merges: MergeList,
}

fn without(text: &[u8], parts: [Part; 2]) -> Vec<u8> {
    let [(first, first_end, first_word), (second, second_end, second_word)] = parts;
    [
        &text[..first],
        first_word,
        &text[first_end..second],
        second_word,
        &text[second_end..],
    ]
    .concat()
}

fn read_model(cursor: &mut Cursor) -> Option<Model> {
    let (mut vocabulary, mut merges) = (None, None);
    cursor.take(b'{')?;
    loop {
        let key = cursor.raw_string()?;
        cursor.take(b':')?;
        let start = cursor.at;
        let twice = match key {
            b"vocab" => {
                let spellings = Spellings::new(read_vocabulary(cursor)?)?;
                let part: Part = (start, cursor.at, b"{}");
                vocabulary.replace((part, spellings)).is_some()
            }
            b"merges" => {
                // Files in which the merges come first are rare enough for the careful reader.
                let list = read_merges(cursor, &vocabulary.as_ref()?.1)?;
                let part: Part = (start, cursor.at, b"[]");
                merges.replace((part, list)).is_some()
            }
            _ => {
                cursor.skip()?;
                memchr::memchr(b'\\', key).is_some()
            }
        };
        if twice {
            return None;
        }
        if !cursor.more(b'}')? {
            break;
        }
    }
    let ((vocabulary, spellings), (list, merges)) = vocabulary.zip(merges)?;
    Some(Model {
        parts: [vocabulary, list],
        spellings,
        merges,
    })
}

/// `{"token": id, …}`, with at least one token.
fn read_vocabulary(cursor: &mut Cursor) -> Option<Tokens> {
    let rest = cursor.text.len() - cursor.at;
    // A line of a production file takes some 20 bytes in its shortest form; too little room costs a move.
    let mut tokens = Tokens::with_room(rest / 64, rest / 8);
    cursor.take(b'{')?;
    loop {
        let raw = cursor.raw_string()?;
        cursor.take(b':')?;
        let id = cursor.id(LARGEST_ID)?;
        if memchr::memchr(b'\\', raw).is_none() {
            tokens.push(raw, id);
        } else {
            let plain = |out: &mut Vec<u8>| unescape(raw, Policy::Refuse, out).is_ok();
            if !tokens.push_with(id, plain) {
                return None;
            }
        }
        if !cursor.more(b'}')? {
            return Some(tokens);
        }
    }
}

/// `["a b", …]` or `[["a", "b"], …]`.
fn read_merges(cursor: &mut Cursor, spellings: &Spellings) -> Option<MergeList> {
    let room = spellings.tokens.len();
    let (mut pairs, mut products) = (Vec::with_capacity(room), Vec::with_capacity(room));
    cursor.take(b'[')?;
    let mut both = Vec::new();
    let mut more = cursor.peek()? != b']';
    if !more {
        cursor.at += 1;
    }
    while more {
        both.clear();
        let middle = read_merge(cursor, &mut both)?;
        let (left, right) = both.split_at(middle);
        let id = |token: &[u8]| spellings.index.get(&spellings.tokens, token);
        pairs.push((id(left)?, id(right)?));
        products.push(id(&both)?);
        more = cursor.more(b']')?;
    }
    MergeList::checked(pairs, products)
}

/// Appends both tokens of a merge and gives the length of the first.
#[inline(always)]
fn read_merge(cursor: &mut Cursor, both: &mut Vec<u8>) -> Option<usize> {
    if cursor.peek()? == b'"' {
        cursor.string(both)?;
        let space = memchr::memchr(b' ', both)?;
        both.remove(space);
        return memchr::memchr(b' ', &both[space..])
            .is_none()
            .then_some(space);
    }
    cursor.take(b'[')?;
    cursor.string(both)?;
    let middle = both.len();
    cursor.take(b',')?;
    cursor.string(both)?;
    cursor.take(b']')?;
    Some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ġa": 2, "\u4e2d": 5},
        "merges": [["Ġ", "a"]], "dropout": null}, "decoder": {"x": [1, "}"]}}"#;

    #[test]
    fn the_outline_is_the_file_without_its_large_parts() {
        let file = read(GOOD.as_bytes()).unwrap();
        let outline = String::from_utf8(file.outline).unwrap();
        assert!(
            outline.contains(r#""vocab": {},"#) && outline.contains(r#""merges": [], "dropout""#)
        );
        assert_eq!(file.spellings.id_of("Ġa"), Some(2));
        assert_eq!(file.spellings.id_of("b"), None);
        assert_eq!(file.merges.pairs(), [(1, 0)]);
        let (tokens, outside) = file.spellings.as_bytes();
        assert_eq!(tokens.at(2), b" a");
        assert_eq!(outside.iter().collect::<Vec<_>>(), [("中".as_bytes(), 5)]);
    }

    #[test]
    fn both_forms_of_merges_are_the_same() {
        let text = GOOD.replace(r#"["Ġ", "a"]"#, r#""Ġ a""#);
        assert_eq!(read(text.as_bytes()).unwrap().merges.pairs(), [(1, 0)]);
        let none = GOOD.replace(r#"[["Ġ", "a"]]"#, "[ ]");
        assert_eq!(read(none.as_bytes()).unwrap().merges.pairs(), []);
    }

    #[test]
    fn anything_unusual_is_left_to_the_careful_reader() {
        let changes = [
            (r#""a": 0"#, r#""a": 0.0"#),
            (r#""a": 0"#, r#""a": 2"#),
            (r#""a": 0"#, r#""Ġa": 0"#),
            (r#""a": 0"#, r#""a": 16777216"#),
            (r#""a": 0"#, r#""\ud800": 0"#),
            (r#"["Ġ", "a"]"#, r#"["Ġ", "b"]"#),
            (r#"["Ġ", "a"]"#, r#"["a", "a"]"#),
            (r#"["Ġ", "a"]"#, r#"["Ġ", "a", "a"]"#),
            (r#"["Ġ", "a"]"#, r#"["Ġ", "a"], ["Ġ", "a"]"#),
            (r#"["Ġ", "a"]"#, r#""Ġ a a""#),
            (r#""dropout""#, r#""vocab""#),
            (r#""version""#, r#""m\u006fdel""#),
            (r#""decoder": {"x": [1, "}"]}}"#, r#""model": {}}"#),
            (r#"[1, "}"]}}"#, r#"[1, "}"]}"#),
        ];
        for (from, to) in changes {
            assert!(GOOD.contains(from), "{from}");
            assert!(read(GOOD.replace(from, to).as_bytes()).is_none(), "{to}");
        }
        assert!(read(b"{\"model\": {\"vocab\": {\"\xff\": 1}, \"merges\": []}}").is_none());
    }
}
