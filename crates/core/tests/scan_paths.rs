//! Every way to run a scanner gives what the automaton gives, wherever the blocks fall.

mod scan_cases;

use scan_cases::{alphabet, for_each_tuple, pieces, Random};
use tokenmill_core::cpu::Cpu;
use tokenmill_core::scan::{Path, ScanSpec, Scanner, FAMILIES};

/// The automaton and every block path of this CPU.
fn scanners(name: &str) -> (Scanner, Vec<(Path, Scanner)>) {
    let spec = ScanSpec::from_choice(name).unwrap();
    let paths = Cpu::all_here().into_iter().map(Path::Blocks);
    let fast = paths.map(|path| (path, Scanner::with_path(&spec, path).unwrap())).collect();
    (Scanner::with_path(&spec, Path::Plain).unwrap(), fast)
}

fn compare(name: &str, plain: &Scanner, fast: &[(Path, Scanner)], text: &str) {
    let expected = pieces(plain, text);
    for (path, scanner) in fast {
        let found = pieces(scanner, text);
        if found != expected {
            let at = (0..=found.len()).find(|&i| found.get(i) != expected.get(i)).unwrap();
            let from = at.checked_sub(1).map_or(0, |i| expected[i] as usize);
            let near: String = text[from..].chars().take(24).collect();
            panic!(
                "{name} {path:?} at byte {from} of {}: {near:?} ends at {:?}, expected {:?}",
                text.len(),
                found.get(at),
                expected.get(at)
            );
        }
    }
}

#[test]
fn tuples_across_a_block_edge() {
    let length = if cfg!(debug_assertions) { 3 } else { 5 };
    for name in FAMILIES.iter().map(|family| family.name) {
        let (plain, mut fast) = scanners(name);
        // The paths share the algebra and differ only in their lanes: here the fastest is enough.
        fast.retain(|(path, _)| *path == Path::Blocks(Cpu::get()));
        let mut text = String::new();
        for_each_tuple(&alphabet(name), length, &mut |tuple| {
            text.clear();
            text.push_str(&"x".repeat(64 - tuple.len() / 2));
            text.push_str(tuple);
            compare(name, &plain, &fast, &text);
        });
    }
}

/// All tuples, and the characters that are recognised from their bytes, with neighbours that are not.
#[test]
fn one_text_at_every_shift() {
    let length = if cfg!(debug_assertions) { 2 } else { 4 };
    let ranges = [
        '\u{A0}'..='\u{17F}',
        '\u{3F0}'..='\u{48F}',
        '\u{2FF0}'..='\u{3100}',
        '\u{FF00}'..='\u{FF3F}',
    ];
    let bytes: Vec<char> = ranges.into_iter().flatten().collect();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for name in FAMILIES.iter().map(|family| family.name) {
        let (plain, fast) = scanners(name);
        let mut all = String::new();
        for_each_tuple(&alphabet(name), length, &mut |tuple| all.push_str(tuple));
        for &c in &bytes {
            let other = bytes[random.below(bytes.len())];
            all.extend([c, c, ' ', other, c, '7', c, other]);
        }
        for shift in 0..64 {
            let text = ["5".repeat(shift).as_str(), &all].concat();
            compare(name, &plain, &fast, &text);
        }
    }
}

#[test]
fn random_runs_of_every_class() {
    let rounds = if cfg!(debug_assertions) { 60 } else { 2_000 };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for name in FAMILIES.iter().map(|family| family.name) {
        let (plain, fast) = scanners(name);
        let characters = alphabet(name);
        for _ in 0..rounds {
            let (mut text, size) = (String::new(), random.below(6_000));
            let longest = [1, 3, 70, 3_000][random.below(4)];
            while text.len() < size {
                let character = characters[random.below(characters.len())];
                let run = 1 + random.below(longest);
                text.extend(std::iter::repeat_n(character, run));
            }
            compare(name, &plain, &fast, &text);
        }
    }
}

#[test]
fn every_scalar_value_between_letters() {
    for name in FAMILIES.iter().map(|family| family.name) {
        let (plain, fast) = scanners(name);
        let text: String =
            ('\0'..=char::MAX).flat_map(|c| [c, 'a', c, c, ' ', c, '!', c]).collect();
        compare(name, &plain, &fast, &text);
    }
}
