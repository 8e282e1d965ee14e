//! Every way into unsafe code, on inputs that are small enough for Miri: `make miri` runs this file there.
//!
//! Results are compared with the plainest code that gives them; what else could be wrong, Miri sees.

use tokenmill_core::bpe::{Alphabet, Merges, Tokens, VocabSpec};
use tokenmill_core::codec::{Codec, CodecSpec, Document, Ids, Options, Prefix, Special, Splitter};
use tokenmill_core::jsonl::{read, Fields};
use tokenmill_core::records::Policy;
use tokenmill_core::scan::{ScanSpec, Scanner};
use tokenmill_core::stop::Stop;

const TEXTS: [&str; 4] = [
    "the cat sat on the mat, the the the",
    "안녕 하세요 the 12345 é😀",
    "",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// Returns all bytes and a few words, ids in the order of ranks.
fn vocabulary() -> VocabSpec {
    let mut tokens = Tokens::default();
    for byte in 0..=255u8 {
        tokens.push(&[byte], byte.into());
    }
    for (id, word) in (256..).zip(["th", "the", " the", "at", "aa", "aaaa"]) {
        tokens.push(word.as_bytes(), id);
    }
    let ranks = tokens.ids().to_vec();
    VocabSpec {
        tokens,
        extra: vec![],
        merges: Merges::Ranked(ranks),
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: false,
    }
}

fn scanner() -> Scanner {
    Scanner::new(&ScanSpec::from_choice("gpt2").unwrap()).unwrap()
}

fn codec() -> Codec {
    Codec::new(CodecSpec {
        vocabulary: vocabulary(),
        added: vec![],
        normalizer: vec![],
        prefix: Prefix::Never,
        splitter: Splitter::Scan(Box::new(scanner())),
        template: (vec![], vec![]),
        trims: Vec::new(),
    })
    .unwrap()
}

#[test]
fn pieces_are_looked_up_merged_and_written() {
    let codec = codec();
    // The second time all pieces are in the cache.
    for text in TEXTS.iter().chain(&TEXTS) {
        let ids = codec.encode(text, Special::Text, false).unwrap();
        let mut decoded = Vec::new();
        codec.bpe().decode_into(&ids, &mut decoded).unwrap();
        assert_eq!(decoded, text.as_bytes());
        assert!(text.is_empty() || ids.len() < text.len());
    }
}

#[test]
fn several_threads_write_to_one_array() {
    let codec = codec();
    let documents: Vec<_> = TEXTS.iter().map(|text| Document::Utf8(text)).collect();
    let options = |threads| Options {
        special: Special::Text,
        template: false,
        frame: (None, Some(7)),
        threads,
    };
    let ids = |threads| {
        let batch = codec.encode_batch(&documents, options(threads), &Stop::new()).unwrap();
        let Ids::U16(ids) = batch.ids else {
            panic!("a small vocabulary has small ids");
        };
        (ids, batch.offsets)
    };
    assert_eq!(ids(1), ids(3));
}

#[test]
fn characters_of_every_width_become_utf8() {
    let mut buffer = String::new();
    // Runs of sixteen with one, two and three bytes each, of all of them, and with one that vectors leave alone.
    let mixed = [
        "éa안éaéa안안é the 12é안",
        "éaéaéaéaéaéaéaéaé",
        "안녕하세요안녕하세요안녕하세요안녕",
        "éa안😀éa안éaéa안안é the 12",
    ];
    for text in TEXTS.into_iter().chain(mixed) {
        let wide: Vec<u32> = text.chars().map(u32::from).collect();
        assert_eq!(Document::Ucs4(&wide).text(&mut buffer).unwrap(), text);
        let plain: String = text.chars().filter(|c| u32::from(*c) < 0x1_0000).collect();
        let narrow: Vec<u16> = plain.encode_utf16().collect();
        assert_eq!(Document::Ucs2(&narrow).text(&mut buffer).unwrap(), plain);
        let latin: String = text.bytes().map(char::from).collect();
        let bytes = Document::Ucs1(text.as_bytes());
        assert_eq!(bytes.text(&mut buffer).unwrap(), latin);
    }
    assert!(Document::Ucs2(&[0xD800]).text(&mut buffer).is_err());
}

#[test]
fn strings_of_json_end_where_they_end() {
    let fields = |policy| Fields::new(vec![Err(vec!["text".into()])], vec![], policy, 1 << 20);
    for text in TEXTS {
        let line = format!("{{\"id\": 1, \"text\": \"{text}\\n\\u00e9\"}}");
        let expected = format!("{text}\né");
        let batch = read(line.as_bytes(), &fields(Policy::Refuse));
        assert_eq!(batch.texts.bytes, expected.as_bytes());
    }
}

#[test]
fn a_text_is_cut_at_the_same_places_whole_and_in_parts() {
    for family in ["gpt2", "cl100k", "o200k"] {
        let scanner = Scanner::new(&ScanSpec::from_choice(family).unwrap()).unwrap();
        for text in TEXTS {
            let mut joined = Vec::new();
            scanner.for_each_piece(text, |piece| joined.extend_from_slice(piece)).unwrap();
            assert_eq!(joined, text.as_bytes());
        }
    }
}
