//! Each hand-written scanner equals its regex over every tuple of one character per class.

mod scan_cases;

use scan_cases::{alphabet, for_each_tuple, pieces};
use tokenmill_core::scan::{Path, ScanSpec, Scanner};

fn check(name: &str) {
    let spec = ScanSpec::named(name).unwrap();
    let scanner = Scanner::with_path(&spec, Path::Plain).unwrap();
    let oracle = Scanner::new(&ScanSpec::Chain(spec.steps())).unwrap();
    let length = if cfg!(debug_assertions) { 3 } else { 5 };
    let alphabet = alphabet(name);
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
