//! The automaton of any pattern gives the pieces that the regex engine gives.
//!
//! `TOKENMILL_FUZZ=10000000` sets the number of random texts.

mod scan_cases;

use scan_cases::{for_each_tuple, pieces, Random};
use tokenmill_core::scan::{Behavior, Dialect, Path, Pattern, ScanSpec, Scanner, Step, FAMILIES};

/// Patterns of real projects, and the constructs that they are made of.
const PATTERNS: &[&str] = &[
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)",
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"\w+|\s+|[^\w\s]+",
    r"[^\n]+|[\n]+",
    r"\s?\p{L}+",
    r"\s++$|\S|\s",
    r"[一-龥ࠀ-一가-퟿]+",
    r"(?:'[sS]|'[tT])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}|\s+|.",
    r"\w{1,4}?(?=\s|$)|\W|\w",
    r"\d{2,3}+|ab+|\w{1,3}?(?!x)|[^\w\n]{1,3}?$|(?s:.)",
    "[0-9][0-9][0-9]|[,.]b",
    r"(?i:ß|k|ss)+|(?:a|ab)(?>c|bcd)|x*+y|.",
    r"a?+b|c??d|(?s:.)",
];

/// Every pattern in both dialects, and chains.
fn specs() -> Vec<ScanSpec> {
    let isolate = |regex: &str, dialect| Step::Split {
        pattern: Pattern::Regex(regex.into()),
        behavior: Behavior::Isolated,
        invert: false,
        dialect,
    };
    let mut chains: Vec<Vec<Step>> = (PATTERNS.iter())
        .flat_map(|regex| [Dialect::Rust, Dialect::Oniguruma].map(|it| vec![isolate(regex, it)]))
        .collect();
    let runs = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";
    let coder = "[一-龥ࠀ-一가-퟿]+";
    let splits: &[&[&str]] = &[
        &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", coder, r"\p{N}"],
        &[PATTERNS[4], r"\p{N}"],
        &[r"\p{N}{1,3}", r"\p{N}+| ?[^\s\p{N}]+|\s+(?!\S)|\s+"],
        &[runs, PATTERNS[11]],
        &[PATTERNS[6], PATTERNS[0]],
    ];
    let split = |regex: &&str| isolate(regex, Dialect::Oniguruma);
    chains.extend(splits.iter().map(|steps| steps.iter().map(split).collect()));
    let (individual, behavior) = (true, Behavior::Contiguous);
    chains.push(vec![Step::Digits { individual }, split(&PATTERNS[1])]);
    chains.push(vec![
        Step::Punctuation { behavior },
        Step::ByteLevel,
        Step::Digits { individual: false },
        split(&"[0-9][0-9][0-9]"),
    ]);
    chains.extend([vec![Step::Whitespace {}], vec![Step::WhitespaceSplit {}]]);
    chains.extend(PATTERNS.iter().map(|regex| vec![Step::matches(*regex)]));
    let known = FAMILIES.iter().map(|family| ScanSpec::Known(family.known));
    chains.into_iter().map(ScanSpec::Chain).chain(known).collect()
}

fn check(spec: &ScanSpec, texts: impl FnOnce(&[char], &mut dyn FnMut(&str))) {
    let [fast, oracle] =
        [Path::Plain, Path::Regex].map(|path| Scanner::with_path(spec, path).unwrap());
    assert_ne!(fast.kind(), "regex", "{spec:?}");
    let kept = |scanner: &Scanner, text: &str| {
        let mut kept = Vec::new();
        let visit = |piece: &[u8]| kept.push(piece.as_ptr() as usize);
        scanner.for_each_piece(text, visit).unwrap();
        kept
    };
    texts(&fast.samples(), &mut |text| {
        assert_eq!(pieces(&fast, text), pieces(&oracle, text), "{text:?} by {spec:?}");
        assert!(fast.tiles() || kept(&fast, text) == kept(&oracle, text));
    });
}

#[test]
fn every_tuple_of_one_character_per_class() {
    let most = if cfg!(debug_assertions) { 3_000 } else { 300_000 };
    for spec in specs() {
        check(&spec, |characters, visit| {
            let count = characters.len() as u64;
            let length = (1..9).take_while(|&length| count.pow(length) <= most).last();
            for_each_tuple(characters, length.unwrap_or(1) as usize, &mut |text| {
                visit(text);
            });
        });
    }
}

#[test]
fn random_texts() {
    let rounds = std::env::var("TOKENMILL_FUZZ").map_or(20_000, |count| count.parse().unwrap());
    let (specs, mut random) = (specs(), Random(0x9E37_79B9_7F4A_7C15));
    for spec in &specs {
        check(spec, |characters, visit| {
            for _ in 0..rounds / specs.len() {
                let (mut text, length) = (String::new(), 1 + random.below(16));
                for _ in 0..length {
                    let any = char::from_u32(random.below(0x3_0000) as u32);
                    let class = characters[random.below(characters.len())];
                    let character = any.filter(|_| random.below(16) == 0).unwrap_or(class);
                    let run = [1, 1, 1, 2, 5][random.below(5)];
                    text.extend(std::iter::repeat_n(character, run));
                }
                visit(&text);
            }
        });
    }
}

#[test]
fn what_has_no_automaton_is_left_to_the_regex_engine() {
    for regex in [r"(a)\1", "(?=ab)a", "a*", "(?>ab|a)b", "(?:a?)+b", r"\ba", "(?<=b)a", "abc|b"] {
        let scanner = Scanner::new(&ScanSpec::Chain(vec![Step::isolate(regex)])).unwrap();
        assert_eq!(scanner.kind(), "regex", "{regex}");
    }
}

#[test]
fn a_family_is_recognised_by_what_it_matches() {
    for family in FAMILIES {
        let spec = ScanSpec::from_steps(family.known.steps());
        assert_eq!(spec.name(), family.name);
    }
    let nanochat = Scanner::new(&ScanSpec::from_regex(PATTERNS[0])).unwrap();
    assert_eq!(nanochat.kind(), "blocks");
    for (wrong, meant) in [("gtp2", "gpt2"), ("qwen25", "qwen2"), ("o200k_base", "o200k")] {
        let refused = ScanSpec::from_choice(wrong).unwrap_err().to_string();
        assert!(refused.contains(meant), "{refused}");
    }
}

#[test]
fn dialects_differ_in_words_lines_and_repetition() {
    for (regex, text, [onig, rust]) in [
        (r"[^\w\s]", "a²!", [&[1, 3, 4][..], &[1, 3, 4]]),
        ("[[:punct:]]", "a».", [&[1, 3, 4], &[3, 4]]),
        (r"\w+", "a²", [&[3], &[1, 3]]),
        ("a$", "a\na", [&[1, 2, 3], &[2, 3]]),
        ("1{1,3}+", "1111", [&[4], &[3, 4]]),
    ] {
        for (dialect, expected) in [(Dialect::Oniguruma, onig), (Dialect::Rust, rust)] {
            let step = Step::Split {
                pattern: Pattern::Regex(regex.into()),
                behavior: Behavior::Isolated,
                invert: false,
                dialect,
            };
            for path in [Path::Regex, Path::Plain] {
                let scanner =
                    Scanner::with_path(&ScanSpec::Chain(vec![step.clone()]), path).unwrap();
                assert_eq!(pieces(&scanner, text), expected, "{regex} {dialect:?} {path:?}");
            }
        }
    }
}
