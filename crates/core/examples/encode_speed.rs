//! Speed of the encoder alone, without Python: for profilers and instruction counters.
//!
//! `encode_speed VOCABULARY.tiktoken SCANNER FIRST SECOND [CACHE_MB]` encodes the NUL-separated documents of
//! FIRST (cold), of SECOND (unseen), and of SECOND again (seen), and prints MB per CPU-second and a checksum of the ids.

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use tokenmill_core::bpe::{Alphabet, Bpe, EncodeState, Merges, VocabSpec, DEFAULT_CACHE_BYTES};
use tokenmill_core::files::read_tiktoken;
use tokenmill_core::scan::{ScanSpec, Scanner};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, vocabulary, scanner, first, second, rest @ ..] = &args[..] else {
        return Err("usage: encode_speed VOCABULARY SCANNER FIRST SECOND [CACHE_MB]".into());
    };
    let cache = match rest.first() {
        Some(megabytes) => megabytes.parse::<usize>()? << 20,
        None => DEFAULT_CACHE_BYTES,
    };
    let clock = Instant::now();
    let bpe = Bpe::new(&load(vocabulary)?)?;
    let loaded = clock.elapsed();
    let scanner = Scanner::new(&ScanSpec::named(scanner).ok_or("no such scanner")?)?;
    let clock = Instant::now();
    let mut state = EncodeState::new(&bpe, cache);
    println!("load {loaded:?}, state {:?}", clock.elapsed());
    let texts = [fs::read_to_string(first)?, fs::read_to_string(second)?];
    for (pass, text) in [
        ("cold", &texts[0]),
        ("unseen", &texts[1]),
        ("seen", &texts[1]),
    ] {
        let mut ids = Vec::with_capacity(text.len() / 2);
        let documents: Vec<&str> = text.split('\0').collect();
        let start = cpu_time();
        for document in &documents {
            bpe.encode(&scanner, document, &mut state, &mut ids)?;
        }
        let seconds = cpu_time().saturating_sub(start).as_secs_f64();
        let scan = scan_only(&scanner, &documents)?.as_secs_f64();
        let sum = ids.iter().fold(0u64, |sum, id| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*id))
        });
        let megabytes = text.len() as f64 / 1e6;
        println!(
            "{pass:<7} {:7.1} MB/s, of it scan {:.1} and encode {:.1} MB/s; {} ids, checksum {sum:016x}",
            megabytes / seconds,
            megabytes / scan,
            megabytes / (seconds - scan),
            ids.len()
        );
    }
    Ok(())
}

/// The scan of all documents without any encoding.
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
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one `timespec` to the address given.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn load(path: &str) -> Result<VocabSpec, Box<dyn Error>> {
    let tokens = read_tiktoken(&fs::read(path)?).ok_or("expected `base64 rank` on each line")?;
    let order = tokens.ids().to_vec();
    Ok(VocabSpec {
        tokens,
        extra: Vec::new(),
        merges: Merges::Ranked(order),
        alphabet: Alphabet::Bytes,
        ignore_merges: true,
    })
}
