//! Tokenizer files, read straight into flat tables. Each kind has one reader; its errors name the file, the place
//! in it, what was found and what was expected.

mod hf;
mod index;
mod json;
mod merges;
mod spellings;
mod splits;
mod tiktoken;
mod words;

pub use hf::{read as read_hf, HfFile};
pub use merges::read_lines as read_merges;
pub use spellings::Spellings;
pub use splits::all_splits;
pub use tiktoken::read as read_tiktoken;
pub use words::{check_pairs, check_unique_ids};

/// Ids are indices into tables, so one absurd id would take gigabytes; no real vocabulary comes near this.
pub const LARGEST_ID: u32 = (1 << 24) - 1;

/// Parses a number without sign, point or exponent, up to the largest id.
#[inline(always)]
fn id_of(number: &[u8]) -> Option<u32> {
    if number.is_empty() || number.len() > 8 {
        return None;
    }
    let mut id = 0;
    for digit in number {
        id = id * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (id <= LARGEST_ID).then_some(id)
}
