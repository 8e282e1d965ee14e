//! JSON files: an object that is not nested too deep, or an error that names the line and the column.

use super::words::{excerpt, line_and_column, refusal, Failure};
use crate::jsonl::{unescape, Parser};
use crate::records::{Policy, Reason};
use crate::{Error, Result};

/// No real file is nested deeper, and some engines read such files recursively.
pub(super) const DEEPEST: usize = 64;

/// Reads a text that is one object with `read`, which must consume it.
pub(super) fn read_object<'a, T>(
    text: &'a [u8],
    source: &str,
    read: impl FnOnce(&mut Parser<'a>) -> std::result::Result<T, Failure>,
) -> Result<T> {
    if simdutf8::basic::from_utf8(text).is_err() {
        let at = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), |_| 0);
        let words = format!("cannot be read as UTF-8 text: invalid at byte {at}");
        return Err(refusal(source, words));
    }
    let whole = || {
        let mut parser = Parser::new(text, DEEPEST);
        if parser.peek() != Some(b'{') {
            parser.skip(0)?;
            parser.end()?;
            return Err(Failure::Json((Reason::NotAnObject, 0)));
        }
        let found = read(&mut parser)?;
        parser.end()?;
        Ok(found)
    };
    whole().map_err(|bad| match bad {
        Failure::Json((reason, at)) => refuse_json(text, reason, at, source),
        Failure::Content(error) => error,
    })
}

fn refuse_json(text: &[u8], reason: Reason, at: usize, source: &str) -> Error {
    let rest: Vec<u8> = text[at..].iter().copied().take(20).collect();
    let found = match rest.as_slice() {
        [] => "the end of the text".into(),
        rest => excerpt(rest),
    };
    let words = match reason {
        Reason::NotAnObject => {
            return refusal(source, format!("expected a JSON object, found {found}"));
        }
        Reason::TooDeep => {
            format!("the JSON is nested more than {DEEPEST} levels deep; no tokenizer needs that")
        }
        _ => format!("not valid JSON, found {found}; download or save the file again"),
    };
    let (line, column) = line_and_column(text, at);
    refusal(format_args!("{source}:{line}:{column}"), words)
}

/// Returns whether a key, as written between its quotes, is this word.
pub(super) fn is_key(key: &[u8], word: &[u8]) -> bool {
    let mut plain = Vec::new();
    key == word
        || (memchr::memchr(b'\\', key).is_some()
            && unescape(key, Policy::Refuse, &mut plain).is_ok()
            && plain == word)
}

/// Appends the characters of a string's body; `false` if one of them is a lone surrogate.
#[inline(always)]
pub(super) fn push_plain(body: &[u8], out: &mut Vec<u8>) -> bool {
    if memchr::memchr(b'\\', body).is_none() {
        out.extend_from_slice(body);
        return true;
    }
    unescape(body, Policy::Refuse, out).is_ok()
}
