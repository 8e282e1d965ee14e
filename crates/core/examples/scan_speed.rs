//! How fast each family scans a text: `cargo run --release --example scan_speed -- FILE...`.

use std::error::Error;
use std::time::Instant;

use tokenmill_core::cpu::Cpu;
use tokenmill_core::scan::{Path, ScanSpec, Scanner};

const FAMILIES: [&str; 5] = ["gpt2", "cl100k", "qwen3.5", "o200k", "deepseek-v3"];

/// Characters of each file to scan: short rounds find a quiet moment on a busy machine.
const SAMPLE: usize = 1 << 19;

/// Megabytes per second, the best of many short rounds, and the number of pieces.
fn measure(scanner: &Scanner, text: &str) -> Result<(f64, usize), Box<dyn Error>> {
    let (mut best, mut pieces, mut ends) = (f64::MAX, 0, [0; 256]);
    for _ in 0..40 {
        let (mut spans, begin) = (scanner.spans(text), Instant::now());
        pieces = 0;
        loop {
            let count = spans.fill(&mut ends)?;
            if count == 0 {
                break;
            }
            pieces += count;
        }
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok((text.len() as f64 / 1e6 / best, pieces))
}

fn main() -> Result<(), Box<dyn Error>> {
    for file in std::env::args().skip(1) {
        let text: String = std::fs::read_to_string(&file)?
            .chars()
            .take(SAMPLE)
            .collect();
        println!("{file}: {} bytes", text.len());
        for name in FAMILIES {
            let spec = ScanSpec::from_choice(name)?;
            print!("  {name:<12}");
            for cpu in [None]
                .into_iter()
                .chain(Cpu::all_here().into_iter().map(Some))
            {
                let path = cpu.map_or(Path::Plain, Path::Blocks);
                let (speed, pieces) = measure(&Scanner::with_path(&spec, path)?, &text)?;
                let name = cpu.map_or("plain", Cpu::name);
                print!("  {name} {speed:5.0} MB/s ({pieces} pieces)");
            }
            println!();
        }
    }
    Ok(())
}
