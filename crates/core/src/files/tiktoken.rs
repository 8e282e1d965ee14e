//! `.tiktoken`: one `base64(token) rank` per line.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;

use super::id_of;
use super::index::Index;
use super::words::{bad_id, check_not_empty, check_unique_ids, quote, refusal};
use crate::bpe::Tokens;
use crate::{Error, Result};

/// How Whisper's files spell the empty token that pads their vocabulary; strict base64 does not allow it.
const EMPTY: &[u8] = b"=";

/// Standard base64 with padding; some files have bits set beyond the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Returns the tokens of a file in the order of their ranks, which are their ids. `source` is named in errors.
pub fn read(data: &[u8], source: &str) -> Result<Tokens> {
    let mut tokens = Tokens::with_room(data.len() / 14, data.len() / 2);
    let mut start = 0;
    for (end, number) in memchr::memchr_iter(b'\n', data).chain([data.len()]).zip(1..) {
        let line = data.get(start..end).unwrap_or_default().trim_ascii_end();
        start = end + 1;
        if line.is_empty() {
            continue;
        }
        let before = tokens.ids().last().copied();
        read_line(line, &mut tokens, source, number)?;
        // Without a newline, the last rank may have lost a digit: it must be the next one.
        let next = before.map_or(0, |rank| rank + 1);
        if end == data.len() && tokens.ids().last() != Some(&next) {
            let words = format!(
                "the last line {} has no newline and its rank is not {next}; the file is truncated: download it again",
                quote(line)
            );
            return Err(refusal(format_args!("{source}:{number}"), words));
        }
    }
    check(&tokens, source)?;
    if tokens.ids().is_sorted_by(|one, other| one < other) {
        return Ok(tokens);
    }
    let places = check_unique_ids(&tokens, source)?.into_iter().zip(0..);
    let known = places.filter(|(place, _)| (*place as usize) < tokens.len());
    Ok(known.map(|(place, id)| (tokens.at(place as usize), id)).collect())
}

fn check(tokens: &Tokens, source: &str) -> Result<()> {
    check_not_empty(tokens, source)?;
    let mut places = 1..tokens.len();
    if let Some(place) = places.find(|place| tokens.at(place - 1).is_empty()) {
        let rank = tokens.ids()[place - 1];
        let words =
            format!("rank {rank} is an empty token; only the last token of a file may be empty");
        return Err(refusal(source, words));
    }
    Index::new(tokens).map(drop).map_err(|(one, other)| {
        let (token, ids) = (quote(tokens.at(one)), tokens.ids());
        let (one, other) = (ids[one], ids[other]);
        refusal(source, format!("token {token} has the ranks {one} and {other}"))
    })
}

#[inline(always)]
fn read_line(line: &[u8], tokens: &mut Tokens, source: &str, number: usize) -> Result<()> {
    let space = memchr::memchr(b' ', line).unwrap_or(line.len());
    let (word, digits) = line.split_at(space);
    let digits = digits.trim_ascii_start();
    match id_of(digits) {
        Some(rank)
            if tokens
                .push_with(rank, |out| word == EMPTY || BASE64.decode_vec(word, out).is_ok()) =>
        {
            Ok(())
        }
        _ => Err(refuse_line(line, word, digits, format_args!("{source}:{number}"))),
    }
}

#[cold]
fn refuse_line(line: &[u8], word: &[u8], digits: &[u8], place: std::fmt::Arguments) -> Error {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if let (Ok(token), true) = (BASE64.decode(word), is_number) {
        return bad_id(place, &token, digits);
    }
    let words = format!(
        "expected 'base64 rank', found {}; the file is truncated or damaged: download it again",
        quote(line)
    );
    refusal(place, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tokens() {
        let tokens = read(b"IQ== 0\r\n\naGk= 1\naGV5 7\n", "x").unwrap();
        let pairs: Vec<_> = tokens.iter().collect();
        assert_eq!(pairs, [(&b"!"[..], 0), (&b"hi"[..], 1), (&b"hey"[..], 7)]);
        assert!(read(b"IQ== 0\naGk= 1", "x").is_ok());
    }

    #[test]
    fn ranks_in_any_order_are_put_in_theirs() {
        let tokens = read(b"aGk= 7\nIQ==  0\n", "x").unwrap();
        let pairs: Vec<_> = tokens.iter().collect();
        assert_eq!(pairs, [(&b"!"[..], 0), (&b"hi"[..], 7)]);
    }

    #[test]
    fn whisper_ends_with_an_empty_token() {
        let tokens = read(b"IQ== 0\n= 1\n", "x").unwrap();
        assert_eq!(tokens.iter().last(), Some((&b""[..], 1)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases: [(&[u8], &str); 12] = [
            (b"", "x: the vocabulary is missing or empty"),
            (b"\n", "x: the vocabulary is missing or empty"),
            (b"IQ==", "x:1: expected 'base64 rank', found 'IQ=='"),
            (b"IQ== 0\nIg== x\n", "x:2: expected 'base64 rank'"),
            (b"IQ 0\n", "x:1: expected 'base64 rank'"),
            (b"IQ== -1\n", "x:1: expected 'base64 rank'"),
            (b"IQ== 16777216\n", "has the id 16777216; expected an integer"),
            (b"IQ== 99999999999\n", "has the id 99999999999; expected an integer"),
            (b"IQ== 0\naGk= 0\n", "id 0 belongs to both '!' and 'hi'"),
            (b"IQ== 0\nIQ== 1\n", "token '!' has the ranks 0 and 1"),
            (b"IQ== 0\naGk= 7", "x:2: the last line"),
            (b"= 0\naGk= 1\n", "rank 0 is an empty token"),
        ];
        for (data, words) in cases {
            let error = read(data, "x").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
