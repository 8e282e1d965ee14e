//! The loops of Tokenmill over bytes, pairs and tokens. Pure Rust: `cargo test` needs no Python.
//!
//! Data flows `text -> scan (pieces) -> bpe (ids)` and `text -> scan -> train (merges)`; both share
//! one scan, so training and encoding can never disagree about a piece.

pub mod bpe;
pub mod codec;
pub mod cpu;
pub mod error;
pub mod files;
mod hash;
pub mod jsonl;
pub mod packing;
mod pages;
pub mod recipe;
pub mod records;
pub mod scan;
pub mod small_files;
pub mod spelling;
pub mod stop;
pub mod train;
pub mod writeback;

pub use error::{Error, Result};
pub use pages::prefetch;
pub use stop::Stop;
