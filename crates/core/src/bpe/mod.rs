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
//!
//! # The routes of a piece
//!
//! A piece takes the first route whose condition holds. `encode::Route` names those of pieces that are not cached.
//!
//! | route | condition | code |
//! |---|---|---|
//! | gapped | some byte of it is not a token | `gaps` |
//! | divided | over 31 bytes, and tokens span words; each word then takes a route below | `phrases` |
//! | cut | over 12 bytes, and cuts are proven exact; each segment then takes a route below | `cuts`, `segments` |
//! | cached, short | up to 15 bytes, found in a cache line; almost every piece | `batch`, `lines` |
//! | cached, long | up to 31 bytes in a slot, longer ones in a ring | `cache`, `spill` |
//! | `Whole` | a token that merges do not make, with `ignore_merges` | `Tables::whole` |
//! | `Together` | up to 30 bytes: deferred until 16 pieces can be merged side by side | `pending`, `merge_together` |
//! | `Alone` | longer: in windows of a kilobyte, by sweeps while they pay off, then a scan or a heap | `tables`, `merge` |
//!
//! The last three put their ids into the cache. Short ASCII texts are gathered (`gathered`) and scanned as one batch.

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
mod phrases;
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
