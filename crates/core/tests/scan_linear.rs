//! Twice the text costs about twice the time, on texts made to provoke quadratic behaviour.

use std::time::Instant;

use tokenmill_core::scan::{ScanSpec, Scanner};

/// Seconds for one scan, the best of several.
fn cost(scanner: &Scanner, text: &str) -> f64 {
    let (mut best, mut ends) = (f64::MAX, [0; 256]);
    for _ in 0..5 {
        let (mut spans, begin) = (scanner.spans(text), Instant::now());
        while spans.fill(&mut ends).unwrap() > 0 {}
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best
}

/// A quadratic step costs 64 times more per byte at 4 MiB than at 64 KiB; a busy machine, which has
/// been seen to make a factor of 4, does not.
#[test]
fn cost_per_byte_does_not_grow() {
    let units = [
        "a", " ", "\n", "!", "中", "😀", "7", "'", "a ", "\n ", " \n", "!\n", "'s", "A中",
        "!\u{301}", "\u{3000}", "٣", "/\n", "\u{1}",
    ];
    for name in [
        "gpt2",
        "starcoder",
        "cl100k",
        "o200k",
        "kimi-k2",
        "deepseek-v3",
    ] {
        let scanner = Scanner::new(&ScanSpec::named(name).unwrap()).unwrap();
        for unit in units {
            let (short, long) = (
                unit.repeat((64 << 10) / unit.len()),
                unit.repeat((4 << 20) / unit.len()),
            );
            let ratio = cost(&scanner, &long) / (64.0 * cost(&scanner, &short).max(1e-5));
            assert!(
                ratio < 16.0,
                "{name} on {unit:?}: {ratio:.1} times the cost per byte"
            );
        }
    }
}
