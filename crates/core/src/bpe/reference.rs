//! A slow encoder that is short enough to trust: it consults the merges as given, at every step.

use std::collections::HashMap;

use super::{Alphabet, Merges, VocabSpec};

/// Ids of one piece, by definition.
pub(crate) fn encode_piece(spec: &VocabSpec, piece: &[u8]) -> Vec<u32> {
    let ids: HashMap<&[u8], u32> = spec.tokens.iter().collect();
    let bytes: HashMap<u32, &[u8]> = spec.tokens.iter().map(|(token, id)| (id, token)).collect();
    if let (true, Some(id)) = (spec.ignore_merges, ids.get(piece)) {
        return vec![*id];
    }
    let rank = |left: u32, right: u32| -> Option<(usize, u32)> {
        let product = *ids.get(&[*bytes.get(&left)?, *bytes.get(&right)?].concat()[..])?;
        let rank = match &spec.merges {
            Merges::List(list) => list.pairs().iter().rposition(|pair| *pair == (left, right))?,
            Merges::Ranked(order) => order.iter().position(|id| *id == product)?,
        };
        Some((rank, product))
    };
    let mut word = first_symbols(spec, &ids, piece);
    loop {
        let pairs = word.windows(2).enumerate();
        let best = pairs
            .filter_map(|(at, pair)| rank(pair[0], pair[1]).map(|(rank, id)| (rank, at, id)))
            .min();
        let Some((_, at, product)) = best else {
            return word;
        };
        word.splice(at..at + 2, [product]);
    }
}

fn first_symbols(spec: &VocabSpec, ids: &HashMap<&[u8], u32>, piece: &[u8]) -> Vec<u32> {
    let Alphabet::Chars { byte_tokens } = &spec.alphabet else {
        return piece.iter().map(|byte| ids[&[*byte][..]]).collect();
    };
    let mut word = Vec::new();
    let mut unknown = false;
    for character in std::str::from_utf8(piece).unwrap().chars() {
        let encoded = character.to_string();
        let known = ids.get(encoded.as_bytes());
        match (known, byte_tokens, spec.unknown) {
            (Some(id), _, _) => word.push(*id),
            (None, Some(tokens), _) => {
                word.extend(encoded.bytes().map(|byte| tokens[usize::from(byte)]));
            }
            (None, None, Some(unk)) if !(unknown && unk.fused) => word.push(unk.id),
            _ => {}
        }
        unknown = known.is_none();
    }
    word
}
