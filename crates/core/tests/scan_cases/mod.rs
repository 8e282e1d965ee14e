//! Alphabets and walks that the scan tests share; each uses some.
#![allow(dead_code)]

use tokenmill_core::scan::Scanner;

/// One character per class that some pattern distinguishes, and the letters of contractions.
const GPT2: &str = "aÉ中5٣ \u{3000}\n!'s\u{301}€𐷠";
const CL100K: &str = "Aé中5٣ \t\n\r!'sſ\u{301}€";
const O200K: &str = "Aaǅ中א5 \t\n!'/\u{301}s";
const KIMI: &str = "Aa中א5 \n!'⺀〇𖿰\u{301}s";
const DEEPSEEK: &str = "Aé中・\u{3099}\u{3040}א5 \t\n!，\u{1}€";

/// The alphabet of a family's tests.
pub fn alphabet(name: &str) -> Vec<char> {
    let characters = match name {
        "gpt2" | "starcoder" => GPT2,
        "o200k" | "tekken" => O200K,
        "kimi-k2" => KIMI,
        "deepseek-v3" => DEEPSEEK,
        _ => CL100K,
    };
    characters.chars().collect()
}

/// The ends of all pieces, asked for in small batches.
pub fn pieces(scanner: &Scanner, text: &str) -> Vec<u32> {
    let (mut spans, mut all, mut ends) = (scanner.spans(text), Vec::new(), [0; 7]);
    loop {
        let count = spans.fill(&mut ends).unwrap();
        all.extend_from_slice(&ends[..count]);
        if count == 0 {
            return all;
        }
    }
}

/// Calls `visit` with every string of up to `length` characters of `alphabet`.
pub fn for_each_tuple(alphabet: &[char], length: usize, visit: &mut impl FnMut(&str)) {
    fn extend(alphabet: &[char], left: usize, text: &mut String, visit: &mut impl FnMut(&str)) {
        visit(text);
        if left == 0 {
            return;
        }
        for &character in alphabet {
            text.push(character);
            extend(alphabet, left - 1, text, visit);
            text.pop();
        }
    }
    extend(alphabet, length, &mut String::new(), visit);
}

/// A small generator, so that a failure repeats.
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
