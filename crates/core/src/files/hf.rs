//! The two large parts of a Hugging Face `tokenizer.json`, `model.vocab` and `model.merges`.
//!
//! Everything else is small and goes to Python's `json` as the outline: the same text with these two parts empty.
//! The whole text is validated here, so the outline is valid too.

use std::ops::Range;

use super::json::{is_key, read_object, DEEPEST};
use super::merges::from_array;
use super::words::{excerpt, refusal, Failure};
use super::Spellings;
use crate::bpe::MergeList;
use crate::jsonl::Parser;
use crate::Result;

/// The vocabulary of a BPE and its merges in the order of their ranks.
type Parts = (Spellings, MergeList);

/// What a file holds.
pub struct HfFile {
    /// The file with `{}` for the vocabulary and `[]` for the merges of a BPE; the file itself for any other model.
    pub outline: Vec<u8>,
    /// The large parts, if the model is a BPE.
    pub bpe: Option<Parts>,
}

/// Reads a file. `source` is named in errors.
pub fn read(text: &[u8], source: &str) -> Result<HfFile> {
    let mut model = ModelReader::new(source);
    read_object(text, source, |parser| {
        parser.members(|parser, key| {
            if !is_key(key, b"model") {
                return Ok(parser.skip(1).map(drop)?);
            }
            // Of a doubled key the last one counts.
            model = ModelReader::new(source);
            if parser.peek() != Some(b'{') {
                return Ok(parser.skip(1).map(drop)?);
            }
            parser.members(|parser, key| model.read_member(parser, key))
        })
    })?;
    match model.finish(text)? {
        None => Ok(HfFile { outline: text.to_vec(), bpe: None }),
        Some((parts, bpe)) => Ok(HfFile { outline: outline_without(text, parts), bpe: Some(bpe) }),
    }
}

/// A range of the text, and what replaces it in the outline.
type Part = (Range<usize>, &'static [u8]);

/// Reads the model. Its large parts are read at once if the type of the model is known by then, as in all files that
/// Hugging Face writes, and otherwise at the end.
struct ModelReader<'a> {
    source: &'a str,
    is_bpe: Option<bool>,
    vocabulary: Option<(Range<usize>, Option<Spellings>)>,
    merges: Option<(Range<usize>, Option<MergeList>)>,
}

impl<'a> ModelReader<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, is_bpe: None, vocabulary: None, merges: None }
    }

    fn read_member(
        &mut self,
        parser: &mut Parser<'_>,
        key: &[u8],
    ) -> std::result::Result<(), Failure> {
        let start = parser.at();
        if is_key(key, b"vocab") {
            let now = self.is_bpe == Some(true) && parser.peek() == Some(b'{');
            let found = if now {
                Some(self.read_vocabulary(parser)?)
            } else {
                parser.skip(2)?;
                None
            };
            self.vocabulary = Some((start..parser.at(), found));
            // Merges that were read before belong to another vocabulary.
            self.merges = self.merges.take().map(|(range, _)| (range, None));
        } else if is_key(key, b"merges") {
            let found = match &self.vocabulary {
                Some((_, Some(spellings))) if parser.peek() == Some(b'[') => {
                    Some(from_array(parser, spellings, self.source)?)
                }
                _ => {
                    parser.skip(2)?;
                    None
                }
            };
            self.merges = Some((start..parser.at(), found));
        } else {
            let value = parser.skip(2)?;
            if is_key(key, b"type") {
                self.is_bpe = Some(value == b"\"BPE\"");
            }
        }
        Ok(())
    }

    fn read_vocabulary(&self, parser: &mut Parser<'_>) -> std::result::Result<Spellings, Failure> {
        Spellings::from_object(parser, &format!("{}: model.vocab", self.source))
    }

    /// Returns the ranges of the two parts and what they contain, if this is a BPE; `text` is known to be JSON by now.
    fn finish(mut self, text: &[u8]) -> Result<Option<([Part; 2], Parts)>> {
        // Old files do not name the type of their model; only a BPE has merges.
        if !self.is_bpe.unwrap_or(self.merges.is_some()) {
            return Ok(None);
        }
        let (vocabulary, found) = self.vocabulary.take().unwrap_or_default();
        let spellings = match found {
            Some(spellings) => spellings,
            None => {
                self.read_late(text, &vocabulary, "vocab", |parser| self.read_vocabulary(parser))?
            }
        };
        let (merges, found) = self.merges.take().unwrap_or_default();
        let list = match found {
            Some(list) => list,
            None => self.read_late(text, &merges, "merges", |parser| {
                from_array(parser, &spellings, self.source)
            })?,
        };
        Ok(Some(([(vocabulary, b"{}"), (merges, b"[]")], (spellings, list))))
    }

    fn read_late<'t, T>(
        &self,
        text: &'t [u8],
        range: &Range<usize>,
        key: &str,
        read: impl FnOnce(&mut Parser<'t>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let value = &text[range.clone()];
        match read(&mut Parser::new(value, DEEPEST)) {
            Ok(found) => Ok(found),
            Err(Failure::Content(error)) => Err(error),
            // It is JSON, but not of the right type.
            Err(Failure::Json(_)) => {
                let found = if value.is_empty() { "missing".into() } else { excerpt(value) };
                let expected = match key {
                    "vocab" => "an object of token -> id",
                    _ => "a list of merges",
                };
                let words = format!("model.{key} is {found}; expected {expected}");
                Err(refusal(self.source, words))
            }
        }
    }
}

fn outline_without(text: &[u8], mut parts: [Part; 2]) -> Vec<u8> {
    parts.sort_by_key(|(range, _)| range.start);
    let [(first, first_word), (second, second_word)] = parts;
    [
        &text[..first.start],
        first_word,
        &text[first.end..second.start],
        second_word,
        &text[second.end..],
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ġa": 2, "\u4e2d": 5},
        "merges": [["Ġ", "a"]], "dropout": null}, "decoder": {"x": [1, "}"]}}"#;

    fn changed(from: &str, to: &str) -> Result<HfFile> {
        assert!(GOOD.contains(from), "{from}");
        read(GOOD.replace(from, to).as_bytes(), "x")
    }

    #[test]
    fn the_outline_is_the_file_without_its_large_parts() {
        for file in [
            read(GOOD.as_bytes(), "x"),
            changed(r#""type": "BPE", "#, ""),
            changed(r#""vocab""#, r#""voc\u0061b""#),
            // Of a doubled key the last one counts.
            changed(r#""type""#, r#""merges": [7], "vocab": 3, "type""#),
        ] {
            let file = file.unwrap();
            let outline = String::from_utf8(file.outline).unwrap();
            assert!(
                outline.contains(r#"b": {},"#) && outline.contains(r#""merges": [], "dropout""#)
            );
            let (spellings, merges) = file.bpe.unwrap();
            assert_eq!(spellings.id_of("Ġa".as_bytes()), Some(2));
            assert_eq!(merges.pairs(), [(1, 0)]);
        }
    }

    #[test]
    fn merges_may_come_first() {
        let text = r#"{"model": {"merges": ["a b"], "vocab": {"a": 0, "b": 1, "ab": 2}}}"#;
        let file = read(text.as_bytes(), "x").unwrap();
        assert_eq!(file.outline, br#"{"model": {"merges": [], "vocab": {}}}"#);
        assert_eq!(file.bpe.unwrap().1.pairs(), [(0, 1)]);
    }

    #[test]
    fn other_models_are_left_as_they_are() {
        for (from, to) in [("BPE", "Unigram"), (r#""model""#, r#""models""#), (r#""BPE""#, "null")]
        {
            let file = changed(from, to).unwrap();
            assert!(file.bpe.is_none());
            assert_eq!(file.outline, GOOD.replace(from, to).as_bytes());
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            (r#""a": 0"#, r#""a": 0.0"#, "x: model.vocab: token 'a' has the id 0.0"),
            (
                r#"["Ġ", "a"]"#,
                r#"["a", "a"]"#,
                "x: model.merges[0]: merges 'a' and 'a', but 'aa' is not",
            ),
            (r#"[["Ġ", "a"]]"#, "{}", "x: model.merges is {}; expected a list"),
            (r#""merges""#, r#""x""#, "x: model.merges is missing; expected a list"),
            (r#"[1, "}"]}}"#, r#"[1, "}"]}"#, "x:2:77: not valid JSON, found the end of the text"),
            ("null", "nul", "not valid JSON, found nul}, "),
            ("null", &"[".repeat(99), "the JSON is nested more than 64 levels deep"),
        ];
        for (from, to, words) in cases {
            let error = changed(from, to).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = read(b"{\"model\": \"\xff\"}", "x").err().unwrap().to_string();
        assert_eq!(error, "x: cannot be read as UTF-8 text: invalid at byte 11");
    }
}
