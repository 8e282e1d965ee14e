//! `src/scan/classes.bin` is what the pinned regex engine says of every scalar value.
//!
//! After a change of the engine's version, `TOKENMILL_WRITE=1 cargo test --release --test scan_classes` writes it anew.
//! HF's `Digits` and `Punctuation` steps follow other Unicode versions than its regexes do; where
//! they depart was found by asking HF `tokenizers` 0.23.3 about every scalar value.

use fancy_regex::Regex;

/// Patterns of the exclusive classes, in the order of their numbers; class 0 is the rest.
const CLASSES: [&str; 9] = [
    r"\p{P}",
    r"\p{S}",
    r"[\p{Lu}\p{Lt}]",
    r"\p{Ll}",
    r"[\p{Lm}\p{Lo}]",
    r"\p{M}",
    r"\p{N}",
    r"[^\S\r\n]",
    r"[\r\n]",
];
/// Numeric since Unicode 17, which HF's `Digits` follows.
const NEWER_DIGITS: [(u32, u32); 2] = [(0x11de0, 0x11de9), (0x16ff4, 0x16ff6)];
/// Punctuation to HF's `Punctuation` but to the regex no longer.
const OLDER_PUNCTUATION: [(u32, u32); 2] = [(0x166d, 0x166d), (0x111c9, 0x111c9)];
/// Punctuation to the regex but newer than what HF's `Punctuation` follows.
#[rustfmt::skip]
const NEWER_PUNCTUATION: [(u32, u32); 39] = [
    (0x61d, 0x61d), (0x9fd, 0x9fd), (0xa76, 0xa76), (0xc77, 0xc77), (0xc84, 0xc84), (0x1b4e, 0x1b4f),
    (0x1b7d, 0x1b7f), (0x2e43, 0x2e4f), (0x2e52, 0x2e5d), (0x10d6e, 0x10d6e), (0x10ead, 0x10ead),
    (0x10f55, 0x10f59), (0x10f86, 0x10f89), (0x113d4, 0x113d5), (0x113d7, 0x113d8), (0x1144b, 0x1144f),
    (0x1145a, 0x1145b), (0x1145d, 0x1145d), (0x11660, 0x1166c), (0x116b9, 0x116b9), (0x1183b, 0x1183b),
    (0x11944, 0x11946), (0x119e2, 0x119e2), (0x11a3f, 0x11a46), (0x11a9a, 0x11a9c), (0x11a9e, 0x11aa2),
    (0x11b00, 0x11b09), (0x11be1, 0x11be1), (0x11c41, 0x11c45), (0x11c70, 0x11c71), (0x11ef7, 0x11ef8),
    (0x11f43, 0x11f4f), (0x11fff, 0x11fff), (0x12ff1, 0x12ff2), (0x16d6d, 0x16d6f), (0x16e97, 0x16e9a),
    (0x16fe2, 0x16fe2), (0x1e5ff, 0x1e5ff), (0x1e95e, 0x1e95f),
];

/// Returns the property byte of every code point; see `scan/classes.rs` for its bits.
fn expected() -> Vec<u8> {
    let mut table = vec![0; 0x11_0000];
    for (number, pattern) in (1..).zip(CLASSES) {
        mark(&mut table, pattern, number);
    }
    mark(&mut table, r"\p{Han}", 1 << 4);
    mark(&mut table, r"\p{N}", 1 << 5);
    set(&mut table, &NEWER_DIGITS, 1 << 5);
    mark(&mut table, r"[\p{P}$+<=>^`|~]", 1 << 6);
    set(&mut table, &OLDER_PUNCTUATION, 1 << 6);
    for &(first, last) in &NEWER_PUNCTUATION {
        (first..=last).for_each(|c| table[c as usize] &= !(1 << 6));
    }
    mark(&mut table, "[一-龥぀-ゟ゠-ヿ]", 1 << 7);
    table
}

fn mark(table: &mut [u8], pattern: &str, bits: u8) {
    let regex = Regex::new(pattern).unwrap();
    for character in '\0'..=char::MAX {
        if regex.is_match(character.encode_utf8(&mut [0; 4]) as &str).unwrap() {
            table[character as usize] |= bits;
        }
    }
}

fn set(table: &mut [u8], ranges: &[(u32, u32)], bits: u8) {
    for &(first, last) in ranges {
        (first..=last).for_each(|c| table[c as usize] |= bits);
    }
}

#[test]
fn the_table_is_what_the_engine_says() {
    let table = expected();
    let (mut numbers, mut pages) = (Vec::new(), Vec::<&[u8]>::new());
    for page in table.chunks(256) {
        let known = pages.iter().position(|known| *known == page);
        numbers.push(u8::try_from(known.unwrap_or(pages.len())).unwrap());
        if known.is_none() {
            pages.push(page);
        }
    }
    let bytes = [numbers, pages.concat()].concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scan/classes.bin");
    if std::env::var_os("TOKENMILL_WRITE").is_some() {
        std::fs::write(path, &bytes).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == bytes, "{path} is out of date");
}
