//! Merges of spelled tokens: the `merges` of a `tokenizer.json`, or the lines of a `merges.txt`.

use std::collections::HashSet;

use super::json::push_plain;
use super::words::{excerpt, quote, refusal, Failure};
use super::Spellings;
use crate::bpe::MergeList;
use crate::jsonl::{Fault, Parser};
use crate::{Error, Result};

/// Reads the array that comes next: `["a b", …]` or `[["a", "b"], …]`. `source` is named in errors.
pub(super) fn from_array(
    parser: &mut Parser<'_>,
    spellings: &Spellings,
    source: &str,
) -> std::result::Result<MergeList, Failure> {
    let mut list = List::new(spellings);
    let mut both = Vec::new();
    let mut number = 0;
    parser.elements(|parser| {
        both.clear();
        let place = || format!("{source}: model.merges[{number}]");
        let start = parser.at();
        let Some(middle) = read_merge(parser, &mut both)? else {
            let words = format!("expected two tokens, found {}", excerpt(parser.since(start)));
            return Err(Failure::Content(refusal(place(), words)));
        };
        list.push(&both, middle, place)?;
        number += 1;
        Ok(())
    })?;
    Ok(list.finish())
}

/// Appends both tokens of a merge and returns the length of the first.
#[inline(always)]
fn read_merge(
    parser: &mut Parser<'_>,
    both: &mut Vec<u8>,
) -> std::result::Result<Option<usize>, Fault> {
    let plain =
        |body: Option<&[u8]>, both: &mut Vec<u8>| body.is_some_and(|body| push_plain(body, both));
    if parser.peek() != Some(b'[') {
        let good = plain(parser.string_body(3)?, both);
        return Ok(if good { split(both) } else { None });
    }
    let (mut parts, mut middle, mut good) = (0, 0, true);
    parser.elements(|parser| {
        middle = if parts == 1 { both.len() } else { middle };
        parts += 1;
        good &= plain(parser.string_body(4)?, both);
        Ok::<(), Fault>(())
    })?;
    Ok((good && parts == 2).then_some(middle))
}

/// Removes the one space from `a b` and returns its place.
fn split(both: &mut Vec<u8>) -> Option<usize> {
    let space = memchr::memchr(b' ', both)?;
    both.remove(space);
    let more = memchr::memchr(b' ', &both[space..]);
    more.is_none().then_some(space)
}

/// Reads one `a b` per line; a first line such as `#version: 0.2` is a comment. `source` is named in errors.
pub fn read_lines(text: &[u8], spellings: &Spellings, source: &str) -> Result<MergeList> {
    let mut list = List::new(spellings);
    let mut both = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || (number == 1 && line.starts_with(b"#version")) {
            continue;
        }
        both.clear();
        both.extend_from_slice(line);
        let place = || format!("{source}:{number}");
        let middle = split(&mut both).ok_or_else(|| {
            let words = format!("expected two tokens separated by a space, found {}", quote(line));
            refusal(place(), words)
        })?;
        list.push(&both, middle, place)?;
    }
    Ok(list.finish())
}

struct List<'a> {
    spellings: &'a Spellings,
    pairs: Vec<(u32, u32)>,
    products: Vec<u32>,
}

impl<'a> List<'a> {
    fn new(spellings: &'a Spellings) -> Self {
        let room = spellings.tokens().len();
        Self { spellings, pairs: Vec::with_capacity(room), products: Vec::with_capacity(room) }
    }

    #[inline(always)]
    fn push(&mut self, both: &[u8], middle: usize, place: impl Fn() -> String) -> Result<()> {
        let (left, right) = both.split_at(middle);
        let id = |token| self.spellings.id_of(token);
        let (Some(one), Some(other), Some(product)) = (id(left), id(right), id(both)) else {
            return Err(self.refuse(left, right, &place()));
        };
        self.pairs.push((one, other));
        self.products.push(product);
        Ok(())
    }

    #[cold]
    fn refuse(&self, left: &[u8], right: &[u8], place: &str) -> Error {
        let both = [left, right].concat();
        let missing =
            [left, right, &both].into_iter().find(|token| self.spellings.id_of(token).is_none());
        let words = format!(
            "merges {} and {}, but {} is not in the vocabulary; the vocabulary and the merges must come from the \
             same training",
            quote(left),
            quote(right),
            quote(missing.unwrap_or_default())
        );
        refusal(place, words)
    }

    /// A pair listed twice has the rank of its last line, as in HF.
    fn finish(self) -> MergeList {
        MergeList::checked(self.pairs, self.products).unwrap_or_else(|(pairs, products)| {
            let mut seen = HashSet::new();
            let all = pairs.into_iter().zip(products).rev();
            let mut last: Vec<_> = all.filter(|(pair, _)| seen.insert(*pair)).collect();
            last.reverse();
            let (pairs, products) = last.into_iter().unzip();
            MergeList::checked(pairs, products).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::read_object;
    use super::*;

    fn from(array: &str) -> Result<MergeList> {
        let text = format!("{{\"m\":{array}}}");
        read_object(text.as_bytes(), "x", |parser| {
            let mut list = None;
            parser.members(|parser, _| {
                list = Some(from_array(parser, &spellings(), "x")?);
                Ok::<(), Failure>(())
            })?;
            Ok(list.unwrap_or_default())
        })
    }

    fn spellings() -> Spellings {
        let text = r#"{"a": 0, "b": 1, "ab": 2, "ba": 3, "\u0120": 4, "Ġa": 5}"#;
        Spellings::read(text.as_bytes(), "x").unwrap()
    }

    #[test]
    fn every_form_is_the_same() {
        let (known, wanted) = (spellings(), [(0, 1), (4, 0)]);
        for array in
            [r#"["a b", "Ġ a"]"#, r#"[["a","b"] ,[ "\u0120", "a"]]"#, r#"["a b",["Ġ","a"]]"#]
        {
            let list = from(array).unwrap();
            assert_eq!(list.pairs(), wanted, "{array}");
            assert_eq!(list.products(), Some(&[2, 5][..]));
        }
        for lines in ["#version: 0.2\na b\nĠ a\n", "a b\r\n\r\nĠ a"] {
            assert_eq!(read_lines(lines.as_bytes(), &known, "x").unwrap().pairs(), wanted);
        }
        assert_eq!(from("[ ]").unwrap().pairs(), []);
    }

    #[test]
    fn the_last_rank_of_a_doubled_merge_counts() {
        let list = from(r#"["a b", "b a", "a b"]"#).unwrap();
        assert_eq!(list.pairs(), [(1, 0), (0, 1)]);
        assert_eq!(list.products(), Some(&[3, 2][..]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let arrays = [
            (
                r#"["a b", "a zz"]"#,
                "x: model.merges[1]: merges 'a' and 'zz', but 'zz' is not in the vocabulary",
            ),
            (r#"["a a"]"#, "but 'aa' is not in the vocabulary; the vocabulary and the merges"),
            (r#"["a b a"]"#, r#"x: model.merges[0]: expected two tokens, found \"a b a\""#),
            (r#"["ab"]"#, "expected two tokens"),
            (r#"[["a", "b", "a"]]"#, "expected two tokens"),
            (r#"[["a", 1]]"#, "expected two tokens"),
            (r#"[{"a": "b"}]"#, "expected two tokens"),
            ("[7]", "expected two tokens, found 7"),
        ];
        for (array, words) in arrays {
            let error = from(array).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = read_lines(b"a b\na\n", &spellings(), "x").unwrap_err().to_string();
        assert!(error.starts_with("x:2: expected two tokens separated by a space"), "{error}");
    }
}
