//! Bytes of a file to documents: what all record formats share (the resulting batch, the reasons for
//! which a record is refused) and the formats that are too small for a folder of their own.

mod batch;
mod csv;
mod text;

pub use batch::{Batch, Column, Kind, Policy, Reason, Reject, Strings};
pub use csv::{read_rows, CsvPart, CsvSpec};
pub(crate) use text::{count_repairs, find_fault};
pub use text::{invalid_rows, split};
