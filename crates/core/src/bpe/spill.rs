//! An arena of fixed size for long keys and long lists of ids.
//!
//! When it is full it starts anew under a new age; a place with an old age is no longer found. That is
//! crude beside a proper replacement policy, but only a few pieces in a thousand come here.

use super::hash::hash_bytes;

/// Pieces longer than this are not remembered: they hardly ever come twice.
const KEY_LIMIT: usize = 1024;

/// Where a list of ids lies.
#[derive(Clone, Copy, Default)]
pub(crate) struct SpillPlace {
    pub(crate) start: u32,
    pub(crate) count: u32,
    pub(crate) age: u32,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u64,
    key_start: u32,
    key_len: u32,
    ids: SpillPlace,
}

pub(crate) struct Spill {
    ids: Vec<u32>,
    id_room: usize,
    keys: Vec<u8>,
    key_room: usize,
    entries: Vec<Entry>,
    age: u32,
}

impl Spill {
    /// An arena of about `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let entries = 1usize << (bytes / 4 / size_of::<Entry>()).max(8).ilog2();
        Self {
            ids: Vec::new(),
            id_room: bytes / 2 / size_of::<u32>(),
            keys: Vec::new(),
            key_room: bytes / 4,
            entries: vec![Entry::default(); entries],
            age: 1,
        }
    }

    fn start_anew(&mut self) {
        self.ids.clear();
        self.keys.clear();
        self.age = self.age.wrapping_add(1).max(1);
        self.entries.fill(Entry::default());
    }

    /// Stores ids; `None` if they could never fit.
    pub(crate) fn put(&mut self, ids: &[u32]) -> Option<SpillPlace> {
        if ids.len() > self.id_room {
            return None;
        }
        if self.ids.len() + ids.len() > self.id_room {
            self.start_anew();
        }
        let start = self.ids.len() as u32;
        self.ids.extend_from_slice(ids);
        Some(SpillPlace {
            start,
            count: ids.len() as u32,
            age: self.age,
        })
    }

    /// Appends stored ids; `false` if they were dropped since.
    pub(crate) fn get(&self, place: SpillPlace, out: &mut Vec<u32>) -> bool {
        if place.age != self.age {
            return false;
        }
        out.extend_from_slice(&self.ids[place.start as usize..][..place.count as usize]);
        true
    }

    /// Appends the ids of a long piece; `false` if it is not known.
    pub(crate) fn find(&self, piece: &[u8], tag: u8, out: &mut Vec<u32>) -> bool {
        if piece.len() > KEY_LIMIT {
            return false;
        }
        let hash = hash_bytes(piece) ^ u64::from(tag);
        let entry = &self.entries[hash as usize & (self.entries.len() - 1)];
        let key = || &self.keys[entry.key_start as usize..][..entry.key_len as usize];
        entry.hash == hash
            && entry.ids.age == self.age
            && key() == piece
            && self.get(entry.ids, out)
    }

    /// Remembers a long piece.
    pub(crate) fn insert(&mut self, piece: &[u8], tag: u8, ids: &[u32]) {
        if piece.len() > KEY_LIMIT.min(self.key_room) {
            return;
        }
        if self.keys.len() + piece.len() > self.key_room {
            self.start_anew();
        }
        let Some(ids) = self.put(ids) else { return };
        // `put` may have started anew, which is fine: the key is added after it.
        let hash = hash_bytes(piece) ^ u64::from(tag);
        let at = hash as usize & (self.entries.len() - 1);
        self.entries[at] = Entry {
            hash,
            key_start: self.keys.len() as u32,
            key_len: piece.len() as u32,
            ids,
        };
        self.keys.extend_from_slice(piece);
    }
}
