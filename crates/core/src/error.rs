//! One error enum, one variant per fact; the Python side maps each variant in one place.

/// What can go wrong in the core. Every variant carries the data that its message needs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bytes that were promised to be UTF-8 are not.
    #[error("invalid UTF-8 at byte {offset}")]
    InvalidUtf8 {
        /// Offset of the first byte that cannot continue a valid sequence.
        offset: usize,
    },
    /// A vocabulary, merge list, pattern or template that contradicts itself; the text says which and where.
    #[error("{0}")]
    Tokenizer(String),
    /// A tokenizer that the codec does not provably run as its own library does; the text is the reason.
    #[error("{0}")]
    Unsupported(String),
    /// Text that cannot be encoded as the caller asked; the text says where and what to do.
    #[error("{0}")]
    Input(String),
    /// Temporary files cannot be written or read; the text says where and what to do.
    #[error("{0}")]
    Disk(String),
    /// A mistake of ours that was caught before it could cross into the caller.
    #[error("internal error: {0}")]
    Internal(String),
    /// A name that looks like a family's but is not one.
    #[error(
        "pattern {name:?} is not a family; did you mean {nearest:?}? The families are {known}. If it is \
         a regex, put it in a group: (?:{name})"
    )]
    UnknownFamily {
        /// What was given.
        name: String,
        /// The family whose name is closest to it.
        nearest: &'static str,
        /// All names.
        known: String,
    },
    /// A regular expression does not compile.
    #[error("cannot use the pattern {pattern:?}: {reason}; correct the pattern")]
    Pattern {
        /// The pattern as it was given.
        pattern: String,
        /// What the engine says about it.
        reason: String,
    },
    /// A regular expression needs too many steps on some text.
    #[error(
        "the pattern {pattern:?} is too costly on this text: {reason}; rewrite it without nested \
         repetition, e.g. with possessive quantifiers"
    )]
    PatternLimit {
        /// The pattern as it was given.
        pattern: String,
        /// The limit that was reached.
        reason: String,
    },
    /// A single text of 4 GiB or more; offsets of pieces are 32 bits.
    #[error(
        "a text of {bytes} bytes is too long to scan at once; split it into parts below 4 GiB"
    )]
    TextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The system cannot start a thread, usually because there is no memory for its stack.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The caller asked to stop (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

/// The core's result type.
pub type Result<T> = std::result::Result<T, Error>;
