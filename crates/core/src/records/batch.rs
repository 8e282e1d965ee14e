//! A batch of documents as flat buffers, with the records that were refused and why.

/// What happens to text that is not valid Unicode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The record is refused.
    Refuse,
    /// Each offending sequence becomes U+FFFD and is counted.
    Replace,
}

/// Why a record was refused (or, for the first two under [`Policy::Replace`], repaired).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// A `\ud800`-like escape without its other half.
    LoneSurrogate,
    /// Not JSON.
    BrokenJson,
    /// JSON, but not an object.
    NotAnObject,
    /// The object lacks a field that was asked for.
    MissingField,
    /// The field is there, but is not a string.
    NotAString,
    /// Containers nested deeper than any real record.
    TooDeep,
    /// A delimited row with more or fewer fields than the header.
    FieldCount,
    /// A quoted field that never ends, or has text after its closing quote.
    BrokenQuote,
    /// More bytes than a record may have.
    OverLong,
}

impl Reason {
    /// All reasons, in the order of the counters.
    pub const ALL: [Reason; 10] = [
        Reason::InvalidUtf8,
        Reason::LoneSurrogate,
        Reason::BrokenJson,
        Reason::NotAnObject,
        Reason::MissingField,
        Reason::NotAString,
        Reason::TooDeep,
        Reason::FieldCount,
        Reason::BrokenQuote,
        Reason::OverLong,
    ];

    /// Returns the name used in manifests and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::InvalidUtf8 => "invalid_utf8",
            Reason::LoneSurrogate => "lone_surrogate",
            Reason::BrokenJson => "broken_json",
            Reason::NotAnObject => "not_an_object",
            Reason::MissingField => "missing_field",
            Reason::NotAString => "not_a_string",
            Reason::TooDeep => "too_deep",
            Reason::FieldCount => "field_count",
            Reason::BrokenQuote => "broken_quote",
            Reason::OverLong => "over_long",
        }
    }
}

/// A refused record: which, why, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub reason: Reason,
    /// Number of the record (or line) within the block, from 0.
    pub row: i64,
    /// Offset of the fault within the block.
    pub byte: usize,
    /// The bytes around the fault, at most [`SAMPLE_BYTES`] of them.
    pub sample: Vec<u8>,
}

/// Rejects listed per batch; further ones are only counted, so that a file of pure garbage takes no
/// more memory than a clean one.
pub const MAX_REJECTS: usize = 100;
const SAMPLE_BYTES: usize = 60;

/// Strings as one buffer with `len + 1` offsets, the layout of Arrow's large strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// The concatenated UTF-8 bytes.
    pub bytes: Vec<u8>,
    /// Where each string starts, and where the last one ends.
    pub offsets: Vec<i64>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { bytes: Vec::new(), offsets: vec![0] }
    }
}

impl Strings {
    /// Returns the number of finished strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns whether no string is finished.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the string whose bytes have been appended to `bytes`.
    pub fn finish(&mut self) {
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Drops the bytes of a string that was not finished, and all strings from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.bytes.truncate(self.offsets[len] as usize);
    }
}

/// The JSON type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// No such field, or `null`.
    Null = 0,
    /// `false`.
    False = 1,
    /// `true`.
    True = 2,
    /// A number; its spelling is the value.
    Number = 3,
    /// A string.
    String = 4,
    /// An array or an object.
    Container = 5,
}

/// One column other than the text: for each document the kind of the value, and its characters if it is
/// a string or a number.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// A [`Kind`] for each document.
    pub kinds: Vec<u8>,
    /// The characters; empty for every other kind.
    pub values: Strings,
}

/// Documents of a block in file order, and what was refused.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The texts.
    pub texts: Strings,
    /// For each document its record (or line) number within the block, from 0.
    pub rows: Vec<i64>,
    /// For each document the offset in the block at which its record starts.
    pub starts: Vec<i64>,
    /// The requested columns other than the text.
    pub columns: Vec<Column>,
    /// The first [`MAX_REJECTS`] refused records.
    pub rejects: Vec<Reject>,
    /// How many records were refused, by [`Reason::ALL`].
    pub refused: [u64; Reason::ALL.len()],
    /// How many sequences were replaced, by [`Reason::ALL`].
    pub replaced: [u64; Reason::ALL.len()],
    /// Records (or lines) read, including blank and refused ones.
    pub rows_read: i64,
}

impl Batch {
    /// Creates an empty batch with `columns` columns and room for `bytes` of text.
    pub fn with_capacity(columns: usize, bytes: usize) -> Self {
        let mut batch = Batch { columns: vec![Column::default(); columns], ..Batch::default() };
        batch.texts.bytes.reserve(bytes);
        batch
    }

    /// Ends a document whose text and columns have been written.
    pub fn finish(&mut self, row: i64, start: usize) {
        self.texts.finish();
        self.rows.push(row);
        self.starts.push(start as i64);
    }

    /// Takes back what a record wrote before it was found to be bad.
    pub fn roll_back(&mut self) {
        let documents = self.rows.len();
        self.texts.truncate(documents);
        for column in &mut self.columns {
            column.kinds.truncate(documents);
            column.values.truncate(documents);
        }
    }

    /// Counts a refused record whose bytes are `record`, with its fault at `at`.
    pub fn refuse(&mut self, reason: Reason, row: i64, start: usize, record: &[u8], at: usize) {
        self.refused[reason as usize] += 1;
        if self.rejects.len() < MAX_REJECTS {
            let from = at.saturating_sub(SAMPLE_BYTES / 2).min(record.len());
            let to = (from + SAMPLE_BYTES).min(record.len());
            self.rejects.push(Reject {
                reason,
                row,
                byte: start + at,
                sample: record[from..to].to_vec(),
            });
        }
    }
}
