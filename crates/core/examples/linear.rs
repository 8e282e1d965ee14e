//! Ten pathological inputs, each in sizes that double: `cargo run --example linear -- VOCABULARY [MIB]`.
//!
//! Prints one line `input<TAB>bytes` for each call of [`measured`], in order. `benchmarks/linear.py` runs it under
//! callgrind, which counts the instructions of each call: counts, unlike times, are the same on a busy machine.

use std::error::Error;
use std::fs;

use tokenmill_core::bpe::{Alphabet, Bpe, EncodeState, Merges, VocabSpec, DEFAULT_CACHE_BYTES};
use tokenmill_core::files::read_tiktoken;
use tokenmill_core::scan::{ScanSpec, Scanner};

const SMALLEST: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).ok_or("expected a .tiktoken file")?;
    let largest = arguments
        .get(2)
        .map_or(Ok(16), |size| size.parse::<usize>())?
        << 20;
    let tokens = read_tiktoken(&fs::read(path)?, path)?;
    let order = tokens.ids().to_vec();
    let bpe = Bpe::new(&VocabSpec {
        tokens,
        extra: Vec::new(),
        merges: Merges::Ranked(order),
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: true,
    })?;
    let spec = ScanSpec::from_choice("cl100k")?;
    let scanner = Scanner::new(&spec)?;
    for (name, make) in inputs() {
        // Tables that are built on first use are no part of the cost.
        let mut state = EncodeState::new(&bpe, DEFAULT_CACHE_BYTES);
        let first = make(&mut Random(1), SMALLEST);
        bpe.writer(&mut state, &mut Vec::new())
            .encode(&scanner, &first)?;
        let mut size = SMALLEST;
        while size <= largest {
            let text = make(&mut Random(size as u64), size);
            let mut state = EncodeState::new(&bpe, DEFAULT_CACHE_BYTES);
            measured(&bpe, &scanner, &text, &mut state)?;
            println!("{name}\t{}", text.len());
            size *= 2;
        }
    }
    Ok(())
}

/// What is counted: one encode of one text.
#[no_mangle]
#[inline(never)]
pub extern "Rust" fn measured(
    bpe: &Bpe,
    scanner: &Scanner,
    text: &str,
    state: &mut EncodeState,
) -> Result<usize, tokenmill_core::Error> {
    let mut ids = Vec::new();
    bpe.writer(state, &mut ids).encode(scanner, text)?;
    Ok(ids.len())
}

type Make = fn(&mut Random, usize) -> String;

fn inputs() -> [(&'static str, Make); 10] {
    [
        ("one letter", |_, size| "a".repeat(size)),
        ("spaces", |_, size| " ".repeat(size)),
        ("newlines", |_, size| "\n".repeat(size)),
        ("punctuation", |random, size| {
            random.some("!?.,;:#$%&*()-=+", size)
        }),
        ("random letters", |random, size| random.some(LETTERS, size)),
        ("Han", |random, size| {
            random.between('\u{4E00}', '\u{9FA5}', size)
        }),
        ("emoji", |random, size| {
            random.between('\u{1F300}', '\u{1F5FF}', size)
        }),
        ("digits", |random, size| random.some("0123456789", size)),
        ("apostrophes", |_, size| "'".repeat(size)),
        ("unique words", |random, size| random.words(size)),
    ]
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// A small generator with a fixed seed: counts repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }

    fn some(&mut self, characters: &str, size: usize) -> String {
        let bytes = characters.as_bytes();
        let one = |_| char::from(bytes[self.below(bytes.len() as u32) as usize]);
        (0..size).map(one).collect()
    }

    fn between(&mut self, first: char, last: char, size: usize) -> String {
        let mut text = String::with_capacity(size + 4);
        while text.len() < size {
            let code = first as u32 + self.below(last as u32 - first as u32 + 1);
            text.extend(char::from_u32(code));
        }
        text
    }

    fn words(&mut self, size: usize) -> String {
        let mut text = String::with_capacity(size + 16);
        while text.len() < size {
            let length = 3 + self.below(10) as usize;
            text += &self.some(LETTERS, length);
            text.push(' ');
        }
        text
    }
}
