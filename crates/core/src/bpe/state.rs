//! What one thread keeps between calls.

use super::batch::Probes;
use super::cache::Cache;
use super::encode::{SEGMENT, WORTH_CUTTING};
use super::gathered::Gathered;
use super::keys::{Key, LONG};
use super::merge::MergeScratch;
use super::pending::Pending;
use super::phrases::Joiner;
use super::segments::ROOM;
use super::tables::Tables;
use super::Bpe;

/// Cache memory of a thread unless the caller says otherwise: 16 MB of short pieces measured best (2 MB: 15 %
/// slower), and more gained nothing. A quarter is for pieces of 16 to 31 bytes, as many Russian words are: with a
/// fourth of that, Russian seen before took 1.14 times as long with Llama 3.
pub const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// Buffers and caches of one thread, for one [`Bpe`]; memory is fixed when it is built.
pub struct EncodeState {
    pub(crate) cache: Cache,
    pub(crate) scratch: MergeScratch,
    pub(crate) pending: Pending,
    pub(super) gathered: Gathered,
    pub(super) batch: Box<Probes>,
    /// Ends of the pieces of a batch.
    pub(super) ends: Box<[u32]>,
    /// Bytes of pieces that could have been cut while the tables for it were not there.
    pub(super) uncut: usize,
    /// Where the output of a text starts whose words are not joined yet.
    pub(super) unjoined: Option<usize>,
    /// What joins them, once a text needed it.
    pub(super) joiner: Option<Joiner>,
}

impl EncodeState {
    /// Creates a state whose caches take about `cache_bytes`, seeded with the vocabulary if that fits.
    pub fn new(bpe: &Bpe, cache_bytes: usize) -> Self {
        Self::with(bpe, Cache::new(cache_bytes, usize::MAX))
    }

    /// Returns the same for less text: its cache grows to that size if the text turns out to need it.
    pub fn growing(bpe: &Bpe, cache_bytes: usize) -> Self {
        Self::with(bpe, Cache::new(cache_bytes, bpe.vocabulary().len()))
    }

    fn with(bpe: &Bpe, mut cache: Cache) -> Self {
        if cache.lines.room() >= bpe.vocabulary().len() {
            seed(&mut cache, bpe.tables());
        }
        Self {
            cache,
            scratch: MergeScratch::default(),
            pending: Pending::default(),
            gathered: Gathered::new(),
            batch: Box::default(),
            ends: vec![0; ROOM].into(),
            // Tests cut from the first piece on.
            uncut: if cfg!(test) { WORTH_CUTTING } else { 0 },
            unjoined: None,
            joiner: None,
        }
    }

    /// Returns where each recorded text ends; correct once their writer has been dropped.
    pub fn take_ends(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.pending.take_ends()
    }

    /// Discards what an error has left behind.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.gathered.clear();
        self.unjoined = None;
    }

    /// Creates a state for a few kilobytes of text, cheap to build.
    pub fn small(bpe: &Bpe) -> Self {
        Self { uncut: 0, ..Self::new(bpe, 64 << 10) }
    }
}

/// Tokens between the one whose line is prefetched and the one that is stored.
const AHEAD: usize = 12;

/// Every token is the encoding of its own bytes: those made by merges, and those found as whole pieces. The best come
/// first: they occur most often, and so get the slots that are searched first.
fn seed(cache: &mut Cache, tables: &Tables) {
    for (token, id) in &tables.whole {
        if token.len() <= LONG {
            cache.seed(Key::new(token, 0, token.len(), 0), *id);
        }
    }
    let count = tables.splits.len();
    for symbol in 0..count {
        // The line of a later token is prefetched meanwhile: the lines are scattered.
        let later = tables.bytes_of((symbol + AHEAD).min(count - 1) as u32);
        if (1..=LONG).contains(&later.len()) {
            cache.prefetch(Key::new(later, 0, later.len(), 0));
        }
        let token = tables.bytes_of(symbol as u32);
        let fits = (1..=LONG).contains(&token.len());
        if fits && tables.is_made(symbol as u32) {
            let key = |tag| Key::new(token, 0, token.len(), tag);
            cache.seed(key(0), tables.ids[symbol]);
            if !tables.whole.is_empty() && !token.is_ascii() {
                cache.seed(key(SEGMENT), tables.ids[symbol]);
            }
        }
    }
}
