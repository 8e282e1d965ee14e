//! What a caller may ask of merging.

use super::heap::TieBreak;

/// When merging ends, and how ties are broken.
#[derive(Clone, Copy, Debug)]
pub struct MergeOptions {
    /// Stop at this many tokens, the 256 bytes among them.
    pub tokens: usize,
    /// Stop when the best pair occurs less often; at least 1.
    pub min_frequency: u64,
    /// No token may have more bytes.
    pub max_token_length: u32,
    /// Between equal counts.
    pub tie: TieBreak,
    /// Whether two splits of the same bytes make one token, as everywhere except in minbpe.
    pub unify: bool,
}
