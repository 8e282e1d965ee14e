//! Speed of the encoder alone, without Python: for profilers and instruction counters.
//!
//! `encode_speed VOCABULARY.tiktoken SCANNER FIRST SECOND [TURNS]` encodes the NUL-separated documents of
//! FIRST (cold), of SECOND (unseen), and of SECOND again (seen), and prints MB per CPU-second, the best of the
//! turns, and a checksum of the ids.

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use tokenmill_core::bpe::{Alphabet, Bpe, EncodeState, Merges, VocabSpec, DEFAULT_CACHE_BYTES};
use tokenmill_core::files::read_tiktoken;
use tokenmill_core::scan::{ScanSpec, Scanner};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, vocabulary, scanner, first, second, rest @ ..] = &args[..] else {
        return Err("usage: encode_speed VOCABULARY SCANNER FIRST SECOND [TURNS]".into());
    };
    let turns = rest.first().map_or(Ok(1), |turns| turns.parse::<usize>())?;
    let clock = Instant::now();
    let bpe = Bpe::new(&load(vocabulary)?)?;
    let scanner = Scanner::new(&ScanSpec::from_choice(scanner)?)?;
    println!("load {:?}", clock.elapsed());
    let texts = [fs::read_to_string(first)?, fs::read_to_string(second)?];
    let passes = [("cold", &texts[0]), ("unseen", &texts[1]), ("seen", &texts[1])];
    let mut best = [[Duration::MAX; 2]; 3];
    let mut sums = [0u64; 3];
    for _ in 0..turns {
        let mut state = EncodeState::new(&bpe, DEFAULT_CACHE_BYTES);
        for (pass, (_, text)) in passes.iter().enumerate() {
            let mut ids = Vec::with_capacity(text.len() / 2);
            let documents: Vec<&str> = text.split('\0').collect();
            let start = cpu_time();
            let mut writer = bpe.writer(&mut state, &mut ids);
            for document in &documents {
                writer.encode(&scanner, document)?;
            }
            drop(writer);
            best[pass][0] = best[pass][0].min(cpu_time().saturating_sub(start));
            best[pass][1] = best[pass][1].min(scan_only(&scanner, &documents)?);
            sums[pass] = ids.iter().fold(ids.len() as u64, |sum, id| {
                sum.wrapping_mul(31).wrapping_add(u64::from(*id))
            });
        }
    }
    for (((name, text), [all, scan]), sum) in passes.iter().zip(best).zip(sums) {
        let speed = |time: Duration| text.len() as f64 / 1e6 / time.as_secs_f64();
        let (all, scan, encode) = (speed(all), speed(scan), speed(all.saturating_sub(scan)));
        println!(
            "{name:<7} {all:7.1} MB/s: scan {scan:.0}, encode {encode:.0}; checksum {sum:016x}"
        );
    }
    Ok(())
}

/// Returns the scan of all documents without any encoding.
fn scan_only(scanner: &Scanner, documents: &[&str]) -> Result<Duration, Box<dyn Error>> {
    let start = cpu_time();
    let mut ends = [0; 256];
    for document in documents {
        let mut spans = scanner.spans(document);
        while spans.fill(&mut ends)? > 0 {}
    }
    Ok(cpu_time().saturating_sub(start))
}

/// CPU time of this process: on a busy machine the wall clock measures the others.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one `timespec` to the address given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn load(path: &str) -> Result<VocabSpec, Box<dyn Error>> {
    let tokens = read_tiktoken(&fs::read(path)?, path)?;
    let order = tokens.ids().to_vec();
    Ok(VocabSpec {
        tokens,
        extra: Vec::new(),
        merges: Merges::Ranked(order),
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: true,
    })
}
