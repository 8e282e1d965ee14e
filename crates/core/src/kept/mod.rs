//! Tables that were built once, kept in a file so that the next process reads them instead.
//!
//! A file is found by a cryptographic hash of everything that its tables were made from, so it is never used for other
//! input, and it contains flat arrays that are read in bulk. Nothing depends on the CPU. Whatever is wrong with a file
//! (truncated, damaged, of another build, unreadable) is not an error: the tables are built again.
//!
//! ```text
//! magic 8 | sources of the core 16 | key 32 | arrays, each after its length as u64 | XXH3-128 of all before, 16
//! ```
//! All numbers are little-endian.

mod folder;
mod reader;
mod writer;

pub use folder::Folder;
pub use reader::Reader;
pub use writer::Writer;

/// First in every file.
const MAGIC: &[u8; 8] = b"TMTABLES";
/// A hash of the core's sources: a change anywhere may change the tables.
const SOURCES: &[u8; 16] = match env!("TOKENMILL_SOURCES").as_bytes().first_chunk() {
    Some(sources) => sources,
    None => panic!("the build script names the sources in sixteen digits"),
};
/// The hash of everything at the end of a file.
const CHECKSUM: usize = 16;

/// What can be kept.
pub trait Kept: Sized {
    /// Appends all that [`Self::read`] needs.
    fn write(&self, out: &mut Writer);

    /// Reads what [`Self::write`] wrote; `None` if something else is there.
    ///
    /// What is read is not known to be intact before the end of the file: lengths are checked before they are used,
    /// values are not, and only the caller of [`Folder::get`] uses them.
    fn read(from: &mut Reader) -> Option<Self>;
}

/// A hash of everything that some tables were made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key of a list of parts; `kind` names what is made from them.
    pub fn new<'a>(kind: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [SOURCES, kind.as_bytes()].into_iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Its first half, which is enough for a name: the file contains all of it.
    fn name(&self) -> String {
        let half = self.0.first_chunk().copied().unwrap_or_default();
        format!("{:032x}", u128::from_be_bytes(half))
    }
}

#[cfg(test)]
pub(crate) mod tests;
