//! Merging judged by its merges, against a trainer that recounts every pair at each step.

use std::collections::{HashMap, HashSet};

use super::table::PieceKey;
use super::{byte_order, MergeOptions, Merger, PieceTable, TieBreak, Words};
use crate::Stop;

type Bytes = Vec<u8>;

/// Recounts every pair at each step: slow, and short enough to trust.
fn reference(words: &[(Bytes, u64)], options: MergeOptions) -> Vec<(Bytes, Bytes)> {
    let order = byte_order();
    let mut ids: HashMap<Bytes, usize> = order.iter().map(|&b| vec![b]).zip(0..).collect();
    let mut split: Vec<(Vec<Bytes>, u64)> =
        words.iter().map(|(w, c)| (w.iter().map(|&b| vec![b]).collect(), *c)).collect();
    let mut merges = Vec::new();
    while ids.len() < options.tokens {
        let mut counts: HashMap<(Bytes, Bytes), u64> = HashMap::new();
        for (word, count) in &split {
            for pair in word.windows(2) {
                if pair[0].len() + pair[1].len() <= options.max_token_length as usize {
                    *counts.entry((pair[0].clone(), pair[1].clone())).or_default() += count;
                }
            }
        }
        let met = |pair: &(Bytes, Bytes)| {
            let mut places = split.iter().enumerate().flat_map(|(word, (tokens, _))| {
                let pairs = tokens.windows(2).enumerate();
                pairs.map(move |(at, pair)| ((word, at), pair))
            });
            places.find(|(_, found)| found[0] == pair.0 && found[1] == pair.1)
        };
        let best = counts.into_iter().max_by(|(a, x), (b, y)| {
            x.cmp(y).then_with(|| match options.tie {
                TieBreak::GreatestBytes => a.cmp(b),
                TieBreak::LowestIds => (ids[&b.0], ids[&b.1]).cmp(&(ids[&a.0], ids[&a.1])),
                TieBreak::FirstSeen => met(b).cmp(&met(a)),
                TieBreak::ByteValues => {
                    let value = |token: &Bytes| match token[..] {
                        [byte] => usize::from(byte),
                        _ => ids[token],
                    };
                    (value(&b.0), value(&b.1)).cmp(&(value(&a.0), value(&a.1)))
                }
            })
        });
        let Some((pair, count)) = best else { break };
        if count < options.min_frequency.max(1) {
            break;
        }
        let joined = [pair.0.clone(), pair.1.clone()].concat();
        for (word, _) in &mut split {
            let mut at = 0;
            while at + 1 < word.len() {
                if word[at] == pair.0 && word[at + 1] == pair.1 {
                    word.splice(at..at + 2, [joined.clone()]);
                }
                at += 1;
            }
        }
        let next = ids.len();
        ids.entry(joined).or_insert(next);
        if !merges.contains(&pair) {
            merges.push(pair);
        }
    }
    merges
}

fn corpus(seed: u64, letters: u64, words: usize, longest: u64) -> Vec<(Bytes, u64)> {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    let mut seen = HashSet::new();
    let mut made = Vec::new();
    for _ in 0..words {
        let len = random() % longest + 1;
        let word: Bytes = (0..len).map(|_| b'a' + (random() % letters) as u8).collect();
        if seen.insert(word.clone()) {
            made.push((word, random() % 5 + 1));
        }
    }
    made
}

fn merger(words: &[(Bytes, u64)], options: MergeOptions) -> Merger {
    let mut table = PieceTable::new(true);
    // The later ones first: what counts is where a piece occurs, not when it is added.
    for (place, (word, count)) in words.iter().enumerate().rev() {
        let key = PieceKey::of(word, 0, word.len());
        table.add_seen(word, key, *count, place as u64);
    }
    let words = Words::build_for(options.tie, &mut table, 1).expect("small");
    Merger::new(words, options).expect("in order")
}

fn trained(merger: &Merger) -> Vec<(Bytes, Bytes)> {
    let bytes = |id| merger.tokens().get(id).to_vec();
    let merges = merger.merges().iter();
    merges.map(|&(a, b)| (bytes(a), bytes(b))).collect()
}

#[test]
fn merges_equal_a_recount_at_every_step() {
    for seed in 0..400 {
        let words = corpus(seed, seed % 4 + 1, 40, seed % 23 + 2);
        for (_, tie) in TieBreak::NAMED {
            let options = MergeOptions {
                tokens: 256 + 60,
                min_frequency: seed % 3,
                max_token_length: if seed % 5 == 0 { 6 } else { u32::MAX },
                tie,
                unify: true,
            };
            let mut merger = merger(&words, options);
            assert!(merger.advance(usize::MAX, &Stop::new()).expect("runs"));
            assert_eq!(trained(&merger), reference(&words, options), "seed {seed} {tie:?}");
        }
    }
}

#[test]
fn a_rule_of_places_asks_for_them() {
    let mut table = PieceTable::default();
    table.add(b"ab", 2);
    assert!(Words::build_for(TieBreak::FirstSeen, &mut table, 1).is_err());
    let options = MergeOptions {
        tokens: 300,
        min_frequency: 0,
        max_token_length: u32::MAX,
        tie: TieBreak::FirstSeen,
        unify: false,
    };
    let by_count = Words::build(&mut table, 1).expect("small");
    assert!(Merger::new(by_count, options).is_err());
}

#[test]
fn a_replayed_run_ends_alike() {
    let words = corpus(5, 3, 200, 30);
    let options = MergeOptions {
        tokens: 500,
        min_frequency: 0,
        max_token_length: u32::MAX,
        tie: TieBreak::LowestIds,
        unify: true,
    };
    let stop = Stop::new();
    let mut whole = merger(&words, options);
    whole.advance(usize::MAX, &stop).expect("runs");
    for cut in [0, 1, 17, whole.steps().len()] {
        let mut second = merger(&words, options);
        second.replay(&whole.steps()[..cut], &stop).expect("same counts");
        second.advance(usize::MAX, &stop).expect("runs");
        assert_eq!(second.merges(), whole.merges());
        assert_eq!(second.counts(), whole.counts());
    }
    let mut other = merger(&corpus(6, 3, 5, 3), options);
    assert!(other.replay(whole.steps(), &stop).is_err());
}
