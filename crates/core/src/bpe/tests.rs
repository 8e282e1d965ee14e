//! Equivalence with the slow reference on random vocabularies and random pieces.

use std::collections::{HashMap, HashSet};

use crate::scan::{ScanSpec, Scanner};
use crate::Result;

use super::cuts::Cuts;
use super::{
    reference, Alphabet, Bpe, EncodeState, MergeList, Merges, Pieces, Unknown, VocabSpec, WordCut,
};

/// A small generator with a fixed seed, so that failures can be reproduced.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    pub(crate) fn piece(&mut self, letters: &[&str], limit: usize) -> String {
        (0..=self.below(limit)).map(|_| letters[self.below(letters.len())]).collect()
    }
}

/// The whole text as one piece.
pub(crate) struct One(pub(crate) usize);

impl Pieces for One {
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        let len = std::mem::take(&mut self.0);
        ends[0] = len as u32;
        Ok(usize::from(len > 0))
    }
}

/// Returns all bytes, then random joins of existing tokens: some made by merges, some not, in any order of rank.
pub(crate) fn byte_spec(
    random: &mut Random,
    letters: &[&str],
    joins: usize,
    ranked: bool,
    shuffled: bool,
) -> VocabSpec {
    let mut tokens: Vec<(Vec<u8>, u32)> =
        (0..=255u8).map(|byte| (vec![byte], u32::from(byte))).collect();
    let mut parts: Vec<usize> = letters.concat().bytes().map(usize::from).collect();
    let mut list = Vec::new();
    for _ in 0..joins {
        let (left, right) = (parts[random.below(parts.len())], parts[random.below(parts.len())]);
        let token = [&tokens[left].0[..], &tokens[right].0[..]].concat();
        list.push((tokens[left].1, tokens[right].1));
        if token.len() > 12 {
            list.pop();
        } else if !tokens.iter().any(|(known, _)| *known == token) {
            parts.push(tokens.len());
            tokens.push((token, tokens.len() as u32 * 3));
        }
    }
    for at in (1..list.len()).rev().filter(|at| shuffled && at % 5 == 0) {
        list.swap(at, at / 2);
    }
    let mut order: Vec<u32> = tokens.iter().map(|(_, id)| *id).collect();
    for at in (300..order.len()).filter(|_| shuffled) {
        order.swap(at, at - at % 7);
    }
    let merges = if ranked { Merges::Ranked(order) } else { Merges::List(list.into()) };
    VocabSpec {
        tokens: tokens.into_iter().collect(),
        extra: Vec::new(),
        merges,
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: random.below(2) == 0,
    }
}

pub(crate) fn encode_one(bpe: &Bpe, state: &mut EncodeState, piece: &str) -> Vec<u32> {
    let mut out = Vec::new();
    bpe.writer(state, &mut out).encode_pieces(One(piece.len()), piece).unwrap();
    out
}

#[test]
fn random_vocabularies_encode_as_the_reference() {
    let alphabets: [&[&str]; 4] = [
        &["a", "b"],
        &["a", "b", "c", " "],
        &["가", "나", "다", "a"],
        &["中", "丬", "乭", "é", "😀"],
    ];
    let mut random = Random(0x5eed);
    for round in 0..160 {
        let letters = alphabets[round % alphabets.len()];
        let joins = 10 + random.below(60);
        let spec = byte_spec(&mut random, letters, joins, round % 8 < 4, round % 3 == 0);
        let bpe = Bpe::new(&spec).unwrap();
        let mut state = EncodeState::new(&bpe, 64 << 10);
        for _ in 0..60 {
            let piece = random.piece(letters, 40);
            let expected = reference::encode_piece(&spec, piece.as_bytes());
            assert_eq!(
                encode_one(&bpe, &mut state, &piece),
                expected,
                "round {round}, piece {piece:?}"
            );
        }
    }
}

#[test]
fn long_pieces_encode_as_the_reference() {
    let mut random = Random(77);
    for round in 0..12 {
        let letters: &[&str] = if round % 2 == 0 { &["a", "b"] } else { &["가", "나", "b"] };
        let spec = byte_spec(&mut random, letters, 40, round % 3 == 0, round % 4 == 0);
        let bpe = Bpe::new(&spec).unwrap();
        let mut state = EncodeState::new(&bpe, 64 << 10);
        let piece: String = (0..400).map(|_| letters[random.below(letters.len())]).collect();
        assert_eq!(
            encode_one(&bpe, &mut state, &piece),
            reference::encode_piece(&spec, piece.as_bytes())
        );
    }
}

#[test]
fn pieces_that_span_words_encode_as_the_reference() {
    let letters = ["a", "t", "'s", "'", " ", " a", ".", "1", "\n", "가"];
    let (mut random, mut divided) = (Random(2024), 0);
    for round in 0..60 {
        let joins = 40 + random.below(160);
        let spec = byte_spec(&mut random, &letters, joins, round % 2 == 0, false);
        let bpe = Bpe::new(&spec).unwrap();
        divided += usize::from(bpe.tables().phrases.is_some());
        let mut state = EncodeState::new(&bpe, 64 << 10);
        let (mut out, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (mut text, mut ends) = (String::new(), Vec::new());
            for _ in 0..5 {
                let piece = random.piece(&letters, 120);
                expected.extend(reference::encode_piece(&spec, piece.as_bytes()));
                text += &piece;
                ends.push(text.len() as u32);
            }
            let mut writer = bpe.writer(&mut state, &mut out);
            writer.encode_pieces(&ends[..], &text).unwrap();
        }
        assert_eq!(out, expected, "round {round}");
    }
    assert!(divided > 20, "{divided} vocabularies with tokens that span words");
}

fn char_spec(random: &mut Random, letters: &[&str], fallback: bool, fuse_unk: bool) -> VocabSpec {
    let mut tokens: Vec<(Vec<u8>, u32)> = Vec::new();
    for letter in &letters[..letters.len() - 1] {
        tokens.push((letter.as_bytes().to_vec(), 1000 + tokens.len() as u32));
    }
    let mut list = Vec::new();
    for _ in 0..40 {
        let (left, right) = (random.below(tokens.len()), random.below(tokens.len()));
        let token = [&tokens[left].0[..], &tokens[right].0[..]].concat();
        list.push((tokens[left].1, tokens[right].1));
        if !tokens.iter().any(|(known, _)| *known == token) {
            tokens.push((token, 1000 + tokens.len() as u32));
        }
    }
    let byte_tokens = fallback.then(|| Box::new(std::array::from_fn(|byte| byte as u32 + 3)));
    let extra = (0..=255u8)
        .map(|byte| (vec![byte], u32::from(byte) + 3))
        .chain([(b"<unk>".to_vec(), 0)])
        .collect();
    let alphabet = Alphabet::Chars { byte_tokens };
    VocabSpec {
        tokens: tokens.into_iter().collect(),
        extra,
        merges: Merges::List(list.into()),
        alphabet,
        unknown: Some(Unknown { id: 0, fused: fuse_unk }),
        ignore_merges: false,
    }
}

#[test]
fn characters_with_fallback_encode_as_the_reference() {
    let letters = ["a", "b", " ", "中", "乭", "😀"];
    let mut random = Random(99);
    for round in 0..80 {
        let spec = char_spec(&mut random, &letters, round % 2 == 0, round % 4 < 2);
        let bpe = Bpe::new(&spec).unwrap();
        let mut state = EncodeState::new(&bpe, 64 << 10);
        for _ in 0..40 {
            let text = random.piece(&letters, 30);
            let mut out = Vec::new();
            bpe.writer(&mut state, &mut out).encode_words(&text, WordCut::Runs).unwrap();
            assert_eq!(
                out,
                reference::encode_piece(&spec, text.as_bytes()),
                "round {round}, text {text:?}"
            );
        }
    }
}

#[test]
fn products_known_ahead_change_nothing() {
    let letters = ["a", "b", "c", "中"];
    let mut random = Random(0xabc);
    for round in 0..120 {
        let mut spec = byte_spec(&mut random, &letters, 60, false, round % 2 == 0);
        let Merges::List(list) = &spec.merges else {
            panic!("a list was asked for");
        };
        let mut pairs = list.pairs().to_vec();
        let mut seen = HashSet::new();
        pairs.retain(|pair| seen.insert(*pair));
        let ids: HashMap<&[u8], u32> = spec.tokens.iter().collect();
        let bytes: HashMap<u32, &[u8]> =
            spec.tokens.iter().map(|(token, id)| (id, token)).collect();
        let spelled = |(left, right): &(u32, u32)| [bytes[left], bytes[right]].concat();
        let products = pairs.iter().map(|pair| ids[&spelled(pair)[..]]).collect();
        let checked = MergeList::checked(pairs, products).unwrap();
        spec.merges = Merges::List(checked);
        let bpe = Bpe::new(&spec).unwrap();
        let mut state = EncodeState::new(&bpe, 64 << 10);
        for _ in 0..40 {
            let piece = random.piece(&letters, 24);
            let expected = reference::encode_piece(&spec, piece.as_bytes());
            assert_eq!(encode_one(&bpe, &mut state, &piece), expected, "round {round}, {piece:?}");
        }
    }
    assert!(MergeList::checked(vec![(1, 2), (1, 2)], vec![3, 3]).is_err());
}

#[test]
fn decoding_gives_the_text_back() {
    let mut random = Random(5);
    let spec = byte_spec(&mut random, &["a", "é", " "], 50, true, false);
    let bpe = Bpe::new(&spec).unwrap();
    let mut state = EncodeState::new(&bpe, 64 << 10);
    let text = "aéé aaé é a".repeat(9);
    let mut bytes = Vec::new();
    bpe.decode_into(&encode_one(&bpe, &mut state, &text), &mut bytes).unwrap();
    assert_eq!(bytes, text.as_bytes());
    assert!(bpe.decode_into(&[1 << 20], &mut bytes).is_err());
}

#[test]
fn broken_vocabularies_are_refused() {
    let mut random = Random(5);
    let good = byte_spec(&mut random, &["a", "b"], 5, false, false);
    let refused = |change: &dyn Fn(&mut VocabSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        Bpe::new(&spec).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(&|spec| spec.tokens.push(b"z", u32::MAX)).contains("too large"));
    assert!(refused(&|spec| spec.tokens.push(b"zz", 97)).contains("twice"));
    let without_a = good.tokens.iter().filter(|(_, id)| *id != 97).collect();
    let lacks_a = refused(&|spec| {
        spec.tokens.clone_from(&without_a);
        spec.merges = Merges::Ranked(without_a.ids().to_vec());
    });
    assert!(lacks_a.contains("0x61"), "{lacks_a}");
    assert!(refused(&|spec| spec.merges = Merges::List(vec![(1, 2)].into())).contains("no token"));
    assert!(refused(&|spec| spec.merges = Merges::Ranked(vec![9999])).contains("9999"));
}

/// Characters that share bytes, so that parts of them merge across boundaries.
const TANGLED: [&str; 7] = ["中", "丬", "主", "一", "\u{4e80}", "é", "a"];

#[test]
fn cuts_change_nothing_on_tangled_characters() {
    let mut random = Random(0xC0FFEE);
    let mut cuttable = [0, 0];
    for round in 0..240 {
        let joins = 5 + random.below(50);
        let spec = byte_spec(&mut random, &TANGLED, joins, round % 2 == 0, round % 3 == 0);
        let bpe = Bpe::new(&spec).unwrap();
        let is_cut = Cuts::new(bpe.tables()).is_some_and(|cuts| {
            let at = |code| (code, cuts.edges_of(bpe.tables(), code));
            cuts.is_safe(at('中' as u32), at('一' as u32))
        });
        cuttable[usize::from(bpe.tables().ranks_rise())] += usize::from(is_cut);
        let mut state = EncodeState::new(&bpe, 64 << 10);
        for _ in 0..25 {
            let piece = random.piece(&TANGLED, 60);
            let expected = reference::encode_piece(&spec, piece.as_bytes());
            assert_eq!(
                encode_one(&bpe, &mut state, &piece),
                expected,
                "round {round}, piece {piece:?}"
            );
        }
    }
    // First the vocabularies whose ranks fall somewhere, then those whose ranks rise.
    assert!(cuttable[0] > 6 && cuttable[1] > 12, "{cuttable:?}");
}

#[test]
fn a_tiny_cache_that_forgets_changes_nothing() {
    let letters = ["a", "b", "c", "가", "나"];
    let mut random = Random(31);
    let spec = byte_spec(&mut random, &letters, 60, true, false);
    let bpe = Bpe::new(&spec).unwrap();
    let mut tiny = EncodeState::new(&bpe, 1);
    let mut roomy = EncodeState::new(&bpe, 1 << 20);
    for _ in 0..3000 {
        let piece = random.piece(&letters, 70);
        let expected = encode_one(&bpe, &mut roomy, &piece);
        assert_eq!(encode_one(&bpe, &mut tiny, &piece), expected, "piece {piece:?}");
        assert_eq!(encode_one(&bpe, &mut tiny, &piece), expected, "again, piece {piece:?}");
    }
}

/// Pieces of fixed length, all in one text.
struct Every(usize, usize, usize);

impl Pieces for Every {
    fn fill(&mut self, ends: &mut [u32]) -> Result<usize> {
        let mut count = 0;
        while count < ends.len() && self.0 < self.1 {
            self.0 = (self.0 + self.2).min(self.1);
            ends[count] = self.0 as u32;
            count += 1;
        }
        Ok(count)
    }
}

#[test]
fn many_pieces_in_a_text_are_what_they_are_alone() {
    let mut random = Random(32);
    let spec = byte_spec(&mut random, &["a", "b", "c"], 60, true, false);
    let bpe = Bpe::new(&spec).unwrap();
    let text: String = (0..5000).map(|_| ["a", "b", "c"][random.below(3)]).collect();
    let lens = [1, 2, 7, 15, 16, 17, 31, 32, 33, 300];
    for len in lens {
        let (mut state, mut out) = (EncodeState::new(&bpe, 1 << 20), Vec::new());
        bpe.writer(&mut state, &mut out).encode_pieces(Every(0, text.len(), len), &text).unwrap();
        let mut alone = Vec::new();
        let mut fresh = EncodeState::new(&bpe, 64 << 10);
        for start in (0..text.len()).step_by(len) {
            alone.extend(encode_one(&bpe, &mut fresh, &text[start..text.len().min(start + len)]));
        }
        assert_eq!(out, alone, "pieces of {len}");
    }
}

#[test]
fn runs_of_one_letter_encode_as_the_reference() {
    let mut random = Random(4242);
    // Vocabularies in which some product ranks before one of its parts.
    let mut falling = 0;
    for round in 0..48 {
        let spec = byte_spec(&mut random, &["-", " "], 30, round % 2 == 0, round % 3 == 0);
        let bpe = Bpe::new(&spec).unwrap();
        falling += usize::from(!bpe.tables().ranks_rise());
        let mut state = EncodeState::new(&bpe, 64 << 10);
        for len in [33, 64, 65, 127, 200 + random.below(100)] {
            let piece = format!(" {}{}", "-".repeat(len), " ".repeat(len / 3));
            let expected = reference::encode_piece(&spec, piece.as_bytes());
            assert_eq!(
                encode_one(&bpe, &mut state, &piece),
                expected,
                "round {round}, piece {piece:?}"
            );
        }
    }
    assert!(falling > 3);
}

#[test]
fn a_missing_byte_is_left_out_or_unknown() {
    let scanner = Scanner::new(&ScanSpec::from_choice("gpt2").unwrap()).unwrap();
    let tokens = (0..=255u8)
        .filter(|byte| *byte != b'x')
        .map(|byte| (vec![byte], u32::from(byte)))
        .chain([(b"ab".to_vec(), 300), (b"<unk>".to_vec(), 301)]);
    let mut spec = VocabSpec {
        tokens: tokens.collect(),
        extra: Vec::new(),
        merges: Merges::List(vec![(97, 98)].into()),
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: false,
    };
    let ids = |spec: &VocabSpec, text: &str| {
        let bpe = Bpe::new(spec).unwrap();
        let mut state = EncodeState::new(&bpe, 64 << 10);
        let mut out = Vec::new();
        bpe.writer(&mut state, &mut out).encode(&scanner, text).unwrap();
        out
    };
    assert_eq!(ids(&spec, "axxb ab xx"), [300, 32, 300, 32]);
    for (fused, want) in [(true, vec![97, 301, 98]), (false, vec![97, 301, 301, 98])] {
        spec.unknown = Some(Unknown { id: 301, fused });
        assert_eq!(ids(&spec, "axxb"), want);
    }
}

#[test]
fn tokens_of_megabytes_need_no_table_of_all_their_bytes() {
    let mut tokens: Vec<(Vec<u8>, u32)> =
        (0..=255u8).map(|byte| (vec![byte], u32::from(byte))).collect();
    let (mut list, mut last) = (Vec::new(), u32::from(b'a'));
    for doubling in 1..=24 {
        list.push((last, last));
        last = tokens.len() as u32;
        tokens.push((vec![b'a'; 1 << doubling], last));
    }
    let spec = VocabSpec {
        tokens: tokens.into_iter().collect(),
        extra: Vec::new(),
        merges: Merges::List(MergeList::from(list)),
        alphabet: Alphabet::Bytes,
        unknown: None,
        ignore_merges: false,
    };
    let bpe = Bpe::new(&spec).unwrap();
    let mut state = EncodeState::new(&bpe, 1 << 16);
    // 700 = 512 + 128 + 32 + 16 + 8 + 4.
    let ids = encode_one(&bpe, &mut state, &"a".repeat(700));
    assert_eq!(ids, [264, 262, 260, 259, 258, 257]);
}
