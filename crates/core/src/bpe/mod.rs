//! Byte-pair encoding: from pieces of text to token ids and back, exactly as the reference would.
//!
//! ```text
//! VocabSpec -> canonical splits -> Bpe { vocabulary, pair table }
//! text -> pieces -> (cuts) -> cache hit | exact merge -> ids
//! ```
//!
//! Everything here rests on one theorem: a merge inside an interval of symbols can only depend on that interval as
//! long as nothing has merged across its edges. So whenever a token is made, in whatever context, its bytes have gone
//! through exactly the steps they go through alone. Each token is therefore either never made by merges or always
//! made by one *canonical* split, and a table with one pair per token gives the same ids as the full list of merges.

mod batch;
mod cache;
mod canonical;
mod crossing;
mod cuts;
mod decode;
mod encode;
mod gaps;
mod gathered;
mod keys;
mod lines;
mod merge;
mod merge_together;
mod packed;
mod pairs;
mod pending;
mod pieces;
mod segments;
mod spec;
mod spill;
mod state;
mod symbols;
mod tables;
mod tokens;
mod vocabulary;
mod words;
mod writer;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use encode::Bpe;
pub use pieces::Pieces;
pub use spec::{Alphabet, MergeList, Merges, Unknown, VocabSpec};
pub use state::{EncodeState, DEFAULT_CACHE_BYTES};
pub use tokens::Tokens;
pub use vocabulary::Vocabulary;
pub use words::WordCut;
pub use writer::Writer;

/// The symbol that means "none": no pair, no neighbour, no token.
pub(crate) const NONE: u32 = u32::MAX;
