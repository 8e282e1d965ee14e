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
    /// The caller asked to stop (Ctrl-C).
    #[error("interrupted")]
    Interrupted,
}

/// The core's result type.
pub type Result<T> = std::result::Result<T, Error>;
