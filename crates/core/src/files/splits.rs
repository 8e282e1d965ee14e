//! From tokens by rank to the merge list that other formats need.
//!
//! One merge per token is not exact: a token can be made by different splits in different contexts
//! (678 tokens of Llama-3). Every split of every token, in rank order, is: among equal ranks the leftmost pair
//! is taken first, as tiktoken does.

use std::collections::HashMap;

use crate::bpe::Tokens;

/// Returns every split of the tokens in `order` (ids by rank) into two that are in `order` or are atoms: single
/// bytes, and with `characters` single characters too.
pub fn all_splits(tokens: &Tokens, order: &[u32], characters: bool) -> Vec<(u32, u32)> {
    let by_id: HashMap<u32, &[u8]> = tokens.iter().map(|(token, id)| (id, token)).collect();
    let mut usable: HashMap<&[u8], u32> = HashMap::with_capacity(tokens.len());
    usable.extend(tokens.iter().filter(|(token, _)| is_atom(token, characters)));
    let ranked = order.iter().filter_map(|id| Some((*by_id.get(id)?, *id)));
    usable.extend(ranked.clone());
    let mut splits = Vec::with_capacity(order.len());
    for (token, _) in ranked {
        for cut in 1..token.len() {
            let (left, right) = token.split_at(cut);
            if let (Some(&left), Some(&right)) = (usable.get(left), usable.get(right)) {
                splits.push((left, right));
            }
        }
    }
    splits
}

fn is_atom(token: &[u8], characters: bool) -> bool {
    let is_one = |token: &str| token.chars().count() == 1;
    token.len() == 1 || (characters && std::str::from_utf8(token).is_ok_and(is_one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_into_usable_tokens_is_listed_by_rank() {
        let spelled = ["a", "b", "c", "ab", "bc", "abc", "가", "가b"];
        let tokens: Tokens = spelled.into_iter().zip(0..).collect();
        let bytes = all_splits(&tokens, &[3, 4, 5, 7], false);
        assert_eq!(bytes, [(0, 1), (1, 2), (0, 4), (3, 2)]);
        let characters = all_splits(&tokens, &[5, 3, 7, 99], true);
        assert_eq!(characters, [(3, 2), (0, 1), (6, 1)]);
    }
}
