//! JSON Lines to documents, with our own line loop, so that one bad line is only one bad line.
//!
//! A line is validated as strictly as by Python's `json`, but values are only skipped; the
//! spans of the fields asked for are remembered, and their strings unescaped into one flat buffer.

mod elements;
mod fields;
mod lines;
mod members;
mod parse;
mod strings;

pub use elements::{read_elements, Elements, State};
pub use fields::Fields;
pub use lines::read;
pub use members::members;
pub(crate) use parse::{Fault, Parser};
pub(crate) use strings::unescape;
