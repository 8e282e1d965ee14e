//! Vocabulary files, read straight into flat tables.
//!
//! These readers take what is surely good and give `None` for anything else, however small: the careful reader
//! on the Python side then looks at the file line by line, and either accepts it or says what is wrong and where.

mod alphabet;
mod base64;
mod hf;
mod index;
mod json;
mod tiktoken;

pub use hf::{read as read_hf, HfFile, Spellings};
pub use tiktoken::read as read_tiktoken;

/// Ids above this are left to the careful reader, which refuses them.
const LARGEST_ID: u32 = (1 << 24) - 1;
