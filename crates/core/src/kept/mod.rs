//! Tables that were built once, kept in a file so that the next process reads them instead.
//!
//! A file is found by a cryptographic hash of all that its tables were made from, so no other input can have it, and
//! it holds flat arrays that are read in bulk. Nothing depends on the CPU. Whatever is wrong with a file (cut short,
//! damaged, of another build, unreadable) is no error: the tables are built again.
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
/// The state of the core's sources: a change anywhere may be one of the tables.
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

    /// From what [`Self::write`] wrote; `None` where that is not what is there.
    ///
    /// What is read is not known to be whole before the end of the file: a length is checked before it is used, a
    /// value not at all, and nothing but the caller of [`Folder::get`] looks at it.
    fn read(from: &mut Reader) -> Option<Self>;
}

/// All that some tables were made from.
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

    /// Its first half, which is enough for a name: the file holds all of it.
    fn name(&self) -> String {
        let half = self.0.first_chunk().copied().unwrap_or_default();
        format!("{:032x}", u128::from_be_bytes(half))
    }
}

#[cfg(test)]
pub(crate) mod tests;
