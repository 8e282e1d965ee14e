//! Each hand-written scanner equals its regex over every tuple of one character per class.

use tokenmill_core::scan::{ScanSpec, Scanner};

/// One character per class that some pattern tells apart, and the letters of contractions.
const GPT2: &str = "aÉ中5٣ \u{3000}\n!'s\u{301}€𐷠";
const CL100K: &str = "Aé中5٣ \t\n\r!'sſ\u{301}€";
const O200K: &str = "Aaǅ中א5 \t\n!'/\u{301}s";
const KIMI: &str = "Aa中א5 \n!'⺀〇𖿰\u{301}s";
const DEEPSEEK: &str = "Aé中・\u{3099}\u{3040}א5 \t\n!，\u{1}€";

fn alphabet(name: &str) -> &'static str {
    match name {
        "gpt2" | "starcoder" => GPT2,
        "o200k" | "tekken" => O200K,
        "kimi-k2" => KIMI,
        "deepseek-v3" => DEEPSEEK,
        _ => CL100K,
    }
}

fn pieces(scanner: &Scanner, text: &str) -> Vec<u32> {
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
fn for_each_tuple(alphabet: &[char], length: usize, visit: &mut impl FnMut(&str)) {
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

fn check(name: &str) {
    let spec = ScanSpec::named(name).unwrap();
    let scanner = Scanner::new(&spec).unwrap();
    let oracle = Scanner::new(&ScanSpec::Chain(spec.steps())).unwrap();
    let length = if cfg!(debug_assertions) { 3 } else { 5 };
    let alphabet: Vec<char> = alphabet(name).chars().collect();
    let mut tuples = 0u64;
    for_each_tuple(&alphabet, length, &mut |text| {
        assert_eq!(
            pieces(&scanner, text),
            pieces(&oracle, text),
            "{name} on {text:?}"
        );
        tuples += 1;
    });
    assert!(
        tuples > (alphabet.len() as u64).pow(length as u32),
        "every tuple was tried"
    );
}

macro_rules! families {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test] fn $test() { check($name); })*
    };
}

families! {
    gpt2: "gpt2",
    starcoder: "starcoder",
    cl100k: "cl100k",
    cl100k_tiktoken: "cl100k-tiktoken",
    qwen2: "qwen2",
    qwen3_5: "qwen3.5",
    o200k: "o200k",
    tekken: "tekken",
    kimi: "kimi-k2",
    deepseek: "deepseek-v3",
}
