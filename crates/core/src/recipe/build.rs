//! From a recipe to a codec, whose tables another process may already have built.

use super::Recipe;
use crate::bpe::{Merges, Tokens};
use crate::codec::Codec;
use crate::kept::{Folder, Key};
use crate::Result;

/// Tables of fewer tokens are built in less time than it takes to write and open a file.
const LEAST_KEPT: usize = 1 << 14;

/// The codec of a recipe as JSON, and the name of its scanner; see [`Recipe::into_spec`].
pub fn build(
    json: &str,
    tokens: &Tokens,
    order: Option<Merges>,
    folder: Option<&Folder>,
) -> Result<(Codec, &'static str)> {
    let folder = folder.filter(|_| tokens.len() >= LEAST_KEPT);
    let kept = folder.map(|folder| (folder, key_of(json, tokens, order.as_ref())));
    let (spec, family) = Recipe::from_json(json)?.into_spec(tokens, order)?;
    let codec = match kept {
        Some((folder, key)) => Codec::kept(spec, folder, &key)?,
        None => Codec::new(spec)?,
    };
    Ok((codec, family))
}

/// A hash of everything that the tables are made from.
fn key_of(json: &str, tokens: &Tokens, order: Option<&Merges>) -> Key {
    let lengths = bytes_of(tokens.lengths());
    let (kind, order) = match order {
        None => (0, Vec::new()),
        Some(Merges::Ranked(ids)) => (1, bytes_of(ids.iter().copied())),
        // Products follow from the pairs; whether they are known decides how a pair that occurs twice is read.
        Some(Merges::List(list)) => (
            2 + u8::from(list.products().is_some()),
            bytes_of(list.pairs().iter().flat_map(|(a, b)| [*a, *b])),
        ),
    };
    let ids = bytes_of(tokens.ids().iter().copied());
    let parts = [
        json.as_bytes(),
        tokens.bytes(),
        &lengths,
        &ids,
        &[kind],
        &order,
    ];
    Key::new("codec", parts)
}

fn bytes_of(words: impl Iterator<Item = u32>) -> Vec<u8> {
    words.flat_map(u32::to_le_bytes).collect()
}
