//! Vocabulary files: what our readers accept, a plain one reads with the same meaning; and what loads can encode.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokenmill_core::bpe::{Alphabet, Bpe, EncodeState, Merges, Tokens, VocabSpec};
use tokenmill_core::files::{read_hf, read_tiktoken};
use tokenmill_core::scan::{ScanSpec, Scanner};

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let spec = ScanSpec::from_choice("gpt2").expect("a listed name");
    Scanner::new(&spec).expect("a family compiles")
});

/// Checks that these tokens, if they make a tokenizer, encode a text to ids that decode to it.
fn check_round_trip(tokens: Tokens, merges: Merges) {
    let single = |byte: u8| tokens.iter().any(|(token, _)| token == [byte]);
    let all_bytes = (0..=255).all(single);
    let spec = VocabSpec {
        tokens,
        extra: vec![],
        merges,
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: false,
    };
    let Ok(bpe) = Bpe::new(&spec) else {
        return;
    };
    let text = "the cat sat on the mat, 안녕 1234";
    let mut state = EncodeState::new(&bpe, 1 << 16);
    let mut ids = Vec::new();
    let written = bpe.writer(&mut state, &mut ids).encode(&SCANNER, text);
    written.expect("a family's pattern has no limit to meet");
    let mut decoded = Vec::new();
    bpe.decode_into(&ids, &mut decoded).expect("ids of our own decode");
    // A byte that is not a token is left out.
    assert!(decoded == text.as_bytes() || !all_bytes);
}

fn check_hf(data: &[u8]) {
    let Ok(file) = read_hf(data, "tokenizer.json") else {
        return;
    };
    // The rest of the file is left to a JSON parser, which gets the outline.
    let outline = serde_json::from_slice::<Value>(&file.outline);
    let whole = serde_json::from_slice::<Value>(data);
    assert_eq!(outline.is_ok(), whole.is_ok(), "the outline is valid if the file is");
    let (Ok(value), Some((spellings, merges))) = (whole, file.bpe) else {
        return;
    };
    let vocabulary = value["model"]["vocab"].as_object().expect("accepted without a vocabulary");
    assert_eq!(spellings.tokens().len(), vocabulary.len());
    for (token, id) in vocabulary {
        assert_eq!(spellings.id_of(token.as_bytes()).map(u64::from), id.as_u64(), "{token:?}");
    }
    let listed = value["model"]["merges"].as_array().expect("accepted without merges");
    let id_of = |token: &str| spellings.id_of(token.as_bytes()).expect("a merge of tokens that exist");
    let pairs: Vec<_> = listed
        .iter()
        .map(|merge| match merge {
            Value::String(both) => both.split_once(' ').expect("two tokens"),
            both => (both[0].as_str().expect("a token"), both[1].as_str().expect("a token")),
        })
        .map(|(left, right)| (id_of(left), id_of(right)))
        .collect();
    assert_eq!(merges.pairs(), pairs);
    let (tokens, _) = spellings.as_bytes();
    check_round_trip(tokens, Merges::List(merges));
}

fn check_tiktoken(data: &[u8]) {
    let Ok(tokens) = read_tiktoken(data, "ranks.tiktoken") else {
        return;
    };
    let text = std::str::from_utf8(data).expect("accepted, but not text");
    let lines = text.lines().filter(|line| !line.trim_end().is_empty());
    let mut listed: Vec<(u32, Vec<u8>)> = lines
        .map(|line| {
            let (spelling, number) = line.trim_end().split_once(' ').expect("accepted without a rank");
            let rank = number.trim().parse().expect("accepted with a rank that is not a number");
            (rank, decode_base64(spelling).expect("accepted, but not base64"))
        })
        .collect();
    listed.sort();
    let found: Vec<_> = tokens.iter().map(|(token, rank)| (rank, token.to_vec())).collect();
    assert_eq!(found, listed);
    let ranks = tokens.ids().to_vec();
    check_round_trip(tokens, Merges::Ranked(ranks));
}

fn decode_base64(spelling: &str) -> Option<Vec<u8>> {
    const SIGNS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let body = spelling.trim_end_matches('=');
    let bits: Option<Vec<usize>> = body.chars().map(|sign| SIGNS.find(sign)).collect();
    let (mut all, mut held, mut out) = (0usize, 0, Vec::new());
    for six in bits? {
        all = (all << 6 | six) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((all >> held) as u8);
        }
    }
    Some(out)
}

fuzz_target!(|data: &[u8]| {
    check_hf(data);
    check_tiktoken(data);
});
