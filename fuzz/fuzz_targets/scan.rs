//! Every hand-written scanner, on every path of this CPU, against its regex.
//!
//! The first byte chooses the family, the rest is the text. A few bytes that never occur in UTF-8 stand for
//! characters that the patterns distinguish, so that short inputs reach the interesting cases.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tokenmill_core::cpu::Cpu;
use tokenmill_core::scan::{Path, ScanSpec, Scanner};

fn text_from(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            0xC0 => text.push('中'),
            0xC1 => text.push('\u{301}'),
            0xF5 => text.push('\u{3000}'),
            0xF6 => text.push('٣'),
            0xF7 => text.push('ǅ'),
            0xF8 => text.push('ſ'),
            0xF9 => text.push('⺀'),
            0xFA => text.push('・'),
            0xFB => text.push('😀'),
            0xFC => text.push('\u{378}'),
            0xFD => text.push('，'),
            0xFE => text.push_str(&"x".repeat(61)),
            0xFF => text.push_str(&" ".repeat(63)),
            _ => text.push(char::from(byte)),
        }
    }
    text
}

fn pieces(scanner: &Scanner, text: &str) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    scanner
        .for_each_piece(text, |piece| pieces.push(piece.to_vec()))
        .expect("a family's pattern has no limit to meet");
    pieces
}

/// A family's regex and its scanners, compiled once: compiling costs more than an input.
struct Family {
    name: &'static str,
    oracle: Scanner,
    paths: Vec<(Path, Scanner)>,
}

static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    let family = |name| {
        let spec = ScanSpec::from_choice(name).expect("a listed name");
        let scanner = |path| Scanner::with_path(&spec, path).expect("a known family");
        Family {
            name,
            oracle: scanner(Path::Regex),
            paths: (Cpu::all_here().into_iter().map(Path::Blocks))
                .chain([Path::Plain])
                .map(|path| (path, scanner(path)))
                .collect(),
        }
    };
    tokenmill_core::scan::FAMILIES.iter().map(|row| family(row.name)).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let family = &FAMILIES[choice as usize % FAMILIES.len()];
    let text = text_from(rest);
    let expected = pieces(&family.oracle, &text);
    for (path, scanner) in &family.paths {
        let found = pieces(scanner, &text);
        assert_eq!(found, expected, "{} on {path:?}: {text:?}", family.name);
    }
});
