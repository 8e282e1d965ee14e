//! Each hand-written scanner equals its regex over every tuple of one character per class.

mod scan_cases;

use scan_cases::{alphabet, for_each_tuple, pieces};
use tokenmill_core::scan::{Path, ScanSpec, Scanner, FAMILIES};

fn check(name: &str) {
    let spec = ScanSpec::from_choice(name).unwrap();
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

#[test]
fn every_family() {
    std::thread::scope(|scope| {
        for family in FAMILIES {
            scope.spawn(|| check(family.name));
        }
    });
}
