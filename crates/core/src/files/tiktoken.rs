//! `.tiktoken`: one `base64(token) rank` a line, in the order of ranks.

use super::base64;
use super::index::Index;
use super::LARGEST_ID;
use crate::bpe::Tokens;

/// The tokens of a file, whose ids are their ranks; `None` asks the careful reader to look.
pub fn read(data: &[u8]) -> Option<Tokens> {
    let mut tokens = Tokens::with_room(data.len() / 14, data.len() / 2);
    let mut expected = 0;
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', data).chain([data.len()]) {
        let line = data.get(start..end)?;
        start = end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let space = memchr::memchr(b' ', line)?;
        let rank = number(&line[space + 1..])?;
        // Without its line end, the last rank may have lost a digit: it must be the next one.
        let cut_off = end == data.len() && rank != expected;
        if rank < expected || cut_off {
            return None;
        }
        expected = rank + 1;
        if space == 0 || !tokens.push_with(rank, |out| base64::decode(&line[..space], out)) {
            return None;
        }
    }
    (!tokens.is_empty() && Index::new(&tokens).is_some()).then_some(tokens)
}

/// Up to eight digits and nothing else.
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        number = number * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (number <= LARGEST_ID).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tokens() {
        let tokens = read(b"IQ== 0\r\n\naGk= 1\naGV5 7\n").unwrap();
        let pairs: Vec<_> = tokens.iter().collect();
        assert_eq!(pairs, [(&b"!"[..], 0), (&b"hi"[..], 1), (&b"hey"[..], 7)]);
        assert!(read(b"IQ== 0\naGk= 1").is_some());
    }

    #[test]
    fn anything_unusual_is_left_to_the_careful_reader() {
        let odd: [&[u8]; 12] = [
            b"",
            b"\n",
            b"IQ==",
            b"IQ== x\n",
            b"IQ==  0\n",
            b"IQ 0\n",
            b"IQ== 16777216\n",
            b"aGk= 1\nIQ== 0\n",
            b"IQ== 0\naGk= 0\n",
            b"IQ== 0\nIQ== 1\n",
            b" 0\n",
            b"IQ== 0\naGk= 7",
        ];
        for data in odd {
            assert!(read(data).is_none(), "{}", String::from_utf8_lossy(data));
        }
    }
}
