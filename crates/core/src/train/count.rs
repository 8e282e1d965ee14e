//! Counting: blocks of texts -> one table of pieces per thread -> their sum.
//!
//! Any thread may call with a block: it takes a table that is not in use, so threads never wait for each other,
//! and further ones if the block is large. A table that exceeds its part of the budget is spilled to disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};

use super::counts::Counts;
use super::spill::Spill;
use super::table::{PieceKey, PieceTable, MOST};
use crate::packing::check_offsets;
use crate::scan::{SafeCuts, ScanSpec, Scanner};
use crate::{Error, Result, Stop};

/// A thread takes about this much text at a time, and checks its budget in between.
const TASK_BYTES: usize = 1 << 20;

/// Pieces that are looked up together.
const BATCH: usize = 128;

/// How to count.
pub struct CountOptions {
    /// How many tables, so how many threads at most count at a time; at least one.
    pub threads: usize,
    /// Bytes that all tables together may hold.
    pub memory_budget: usize,
    /// Where to put what does not fit.
    pub spill_dir: PathBuf,
    /// No piece spans one of these, and their own text is not counted.
    pub special_tokens: Vec<String>,
    /// Keep where each piece first occurs, in the order in which blocks are received.
    pub in_order: bool,
}

/// How much was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Texts.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces, repeated ones included.
    pub pieces: u64,
}

/// Documents as one buffer: text `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    /// UTF-8.
    pub data: &'a [u8],
    /// Ascending, one more than there are texts.
    pub offsets: &'a [i64],
}

/// Counts pieces over any number of blocks.
pub struct Counter {
    scanner: Scanner,
    cuts: SafeCuts,
    special: Option<AhoCorasick>,
    /// The workers that are not in use.
    idle: Mutex<Vec<Worker>>,
    returned: Condvar,
    spill: Mutex<Option<Spill>>,
    options: CountOptions,
    totals: Mutex<Totals>,
    /// Bytes of the blocks received so far: the place at which the next one begins.
    received: AtomicU64,
}

struct Worker {
    table: PieceTable,
    pieces: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one thread takes at a time.
enum Task<'a> {
    /// Some whole documents, by their offsets.
    Documents(&'a [i64]),
    /// A part of a long one, and where it starts in it and in the block.
    Part(&'a [u8], usize, usize),
}

/// A block on its way through the workers.
#[derive(Clone, Copy)]
struct Block<'a> {
    data: &'a [u8],
    /// The place of the first byte of `data` among all bytes received; it wraps if `data` begins before the
    /// first text.
    origin: u64,
}

impl Counter {
    /// Compiles the pattern; nothing is written to disk before the budget is exceeded.
    pub fn new(spec: &ScanSpec, options: CountOptions) -> Result<Self> {
        let special = match options.special_tokens.as_slice() {
            [] => None,
            some => Some(special_finder(some)?),
        };
        let scanner = Scanner::new(spec)?;
        Ok(Self {
            cuts: SafeCuts::of_scanner(&scanner, options.special_tokens.clone()),
            scanner,
            special,
            idle: Mutex::new(
                (0..options.threads.max(1))
                    .map(|_| Worker { table: PieceTable::new(options.in_order), pieces: 0 })
                    .collect(),
            ),
            returned: Condvar::new(),
            spill: Mutex::new(None),
            options,
            totals: Mutex::default(),
            received: AtomicU64::new(0),
        })
    }

    /// Counts the pieces of a block.
    pub fn count(&self, texts: Texts<'_>, stop: &Stop) -> Result<()> {
        check_offsets(texts.offsets, texts.data.len())?;
        let place = self.received.fetch_add(byte_count(texts), Ordering::Relaxed);
        let skipped = texts.offsets.first().map_or(0, |&first| first as u64);
        let block = Block { data: texts.data, origin: place.wrapping_sub(skipped) };
        self.run(&self.tasks(texts), block, stop)?;
        let mut totals = lock(&self.totals);
        totals.documents += texts.offsets.len().saturating_sub(1) as u64;
        totals.bytes += byte_count(texts);
        Ok(())
    }

    /// Returns where a text may be cut without changing its pieces.
    pub fn cuts(&self) -> &SafeCuts {
        &self.cuts
    }

    /// Shares tasks out among the workers that are idle.
    fn run(&self, tasks: &[Task<'_>], block: Block<'_>, stop: &Stop) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = |worker: &mut Worker| -> Result<()> {
            while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                stop.check()?;
                self.count_task(worker, task, block)?;
                self.spill_if_full(worker)?;
            }
            Ok(())
        };
        self.with_workers(tasks.len(), |workers| {
            std::thread::scope(|scope| {
                let (first, others) = workers.split_at_mut(1);
                let others = others.iter_mut();
                // If a thread cannot be started, the others do its work.
                let handles: Vec<_> = others
                    .filter_map(|worker| {
                        let thread = std::thread::Builder::new();
                        thread.spawn_scoped(scope, || work(worker)).ok()
                    })
                    .collect();
                let mine = first.iter_mut().try_for_each(work);
                let theirs = handles.into_iter().map(|handle| {
                    let panicked = || Error::Internal("a counting thread panicked".into());
                    handle.join().unwrap_or_else(|_| Err(panicked()))
                });
                theirs.fold(mine, Result::and)
            })
        })
    }

    /// Takes at least one idle worker, waiting for it if necessary, and up to `most` if there are more.
    fn with_workers<T>(&self, most: usize, work: impl FnOnce(&mut [Worker]) -> T) -> T {
        let mut idle = lock(&self.idle);
        while idle.is_empty() {
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        }
        let left = idle.len().saturating_sub(most.max(1));
        let mut taken = idle.split_off(left);
        drop(idle);
        let outcome = work(&mut taken);
        lock(&self.idle).append(&mut taken);
        self.returned.notify_all();
        outcome
    }

    /// Adds counts made earlier.
    pub fn add(&self, pieces: Texts<'_>, counts: &[u64], stop: &Stop) -> Result<()> {
        check_offsets(pieces.offsets, pieces.data.len())?;
        if self.options.in_order {
            return Err(Error::Input(
                "counts made earlier do not say which piece came first, so they cannot be added to counts \
                 that keep the order of the texts"
                    .into(),
            ));
        }
        if counts.len() + 1 != pieces.offsets.len() {
            return Err(Error::Input(format!(
                "{} counts for {} pieces",
                counts.len(),
                pieces.offsets.len().saturating_sub(1)
            )));
        }
        self.with_workers(1, |workers| {
            let worker = &mut workers[0];
            for (i, (span, &count)) in pieces.offsets.windows(2).zip(counts).enumerate() {
                let piece = &pieces.data[span[0] as usize..span[1] as usize];
                worker.table.add(piece, count);
                worker.pieces = worker.pieces.saturating_add(count);
                if i % 4096 == 0 {
                    stop.check()?;
                    self.spill_if_full(worker)?;
                }
            }
            Ok(())
        })
    }

    /// Returns how much has been counted so far; a block is included once all of it is counted.
    pub fn totals(&self) -> Totals {
        let add = |sum: u64, worker: &Worker| sum.saturating_add(worker.pieces);
        let pieces = lock(&self.idle).iter().fold(0, add);
        Totals { pieces, ..*lock(&self.totals) }
    }

    /// Bytes held by the tables of idle workers.
    pub fn memory(&self) -> usize {
        let idle = lock(&self.idle);
        idle.iter().map(|worker| worker.table.memory()).sum()
    }

    /// Sums the tables in memory and on disk.
    pub fn finish(self, stop: &Stop) -> Result<Counts> {
        if self.totals().pieces > MOST {
            return Err(Error::Input(format!(
                "the weighted counts exceed {MOST}; use smaller weights"
            )));
        }
        let workers = std::mem::take(&mut *lock(&self.idle));
        let mut tables: Vec<PieceTable> = workers.into_iter().map(|worker| worker.table).collect();
        tables.sort_by_key(PieceTable::len);
        if let Some(mut spill) = lock(&self.spill).take() {
            for table in tables.drain(..) {
                spill.append(&table)?;
            }
            return spill.finish(stop).map(Counts::on_disk);
        }
        crate::pages::give_back();
        let mut sum = tables.pop().unwrap_or_default();
        while let Some(table) = tables.pop() {
            stop.check()?;
            sum.absorb(&table);
        }
        crate::pages::give_back();
        Ok(Counts::in_memory(sum))
    }

    fn tasks<'a>(&self, texts: Texts<'a>) -> Vec<Task<'a>> {
        let Texts { data, offsets } = texts;
        let mut tasks = Vec::new();
        let mut first = 0;
        for i in 1..offsets.len() {
            let (start, end) = (offsets[i - 1] as usize, offsets[i] as usize);
            if self.cuts.any() && end - start > 2 * TASK_BYTES {
                push_documents(&mut tasks, &offsets[first..i]);
                first = i;
                self.cut(&data[start..end], start, &mut tasks);
            } else if end - offsets[first] as usize >= TASK_BYTES {
                push_documents(&mut tasks, &offsets[first..=i]);
                first = i;
            }
        }
        push_documents(&mut tasks, offsets.get(first..).unwrap_or_default());
        tasks
    }

    /// Cuts a long text into tasks, at safe places.
    fn cut<'a>(&self, text: &'a [u8], from: usize, tasks: &mut Vec<Task<'a>>) {
        let mut start = 0;
        while start < text.len() {
            let cut = self.cuts.next(text, start + TASK_BYTES, text.len());
            let end = cut.unwrap_or(text.len());
            tasks.push(Task::Part(&text[start..end], start, from + start));
            start = end;
        }
    }

    /// Returns the text between special tokens, and where it starts.
    fn for_each_part<'a>(
        &self,
        text: &'a str,
        each: &mut dyn FnMut(&'a str, usize) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        if let Some(special) = &self.special {
            for found in special.find_iter(text) {
                each(&text[start..found.start()], start)?;
                start = found.end();
            }
        }
        each(&text[start..], start)
    }

    fn count_task(&self, worker: &mut Worker, task: &Task<'_>, block: Block<'_>) -> Result<()> {
        let mut count = |bytes, start, at: usize| {
            let text = as_text(bytes, start)?;
            self.for_each_part(text, &mut |part, inside| {
                let place = block.origin.wrapping_add((at + inside) as u64);
                self.count_text(worker, part, place)
            })
        };
        match task {
            Task::Part(part, start, at) => count(part, *start, *at),
            Task::Documents(offsets) => offsets.windows(2).try_for_each(|span| {
                let (start, end) = (span[0] as usize, span[1] as usize);
                count(&block.data[start..end], 0, start)
            }),
        }
    }

    /// Counts some pieces at a time: all are hashed and their slots prefetched before the first is looked up.
    fn count_text(&self, worker: &mut Worker, text: &str, place: u64) -> Result<()> {
        let (mut ends, mut found) = ([0; BATCH], [(PieceKey::default(), 0, 0); BATCH]);
        let (text, mut spans) = (text.as_bytes(), self.scanner.spans(text));
        let mut start = 0;
        loop {
            let count = spans.fill(&mut ends)?;
            if count == 0 {
                return Ok(());
            }
            let mut kept = 0;
            for (i, &end) in ends[..count].iter().enumerate() {
                let end = end as usize;
                if spans.kept(i) {
                    let key = PieceKey::of(text, start, end);
                    worker.table.prefetch(key);
                    found[kept] = (key, start, end);
                    kept += 1;
                }
                start = end;
            }
            for &(key, start, end) in &found[..kept] {
                let table = &mut worker.table;
                table.add_seen(&text[start..end], key, 1, place + start as u64);
            }
            worker.pieces += kept as u64;
        }
    }

    /// Sends a table to disk if it may exceed its part of the budget before the next check. A table that
    /// grows takes three times its size for a moment.
    fn spill_if_full(&self, worker: &mut Worker) -> Result<()> {
        let share = self.options.memory_budget / self.options.threads.max(1);
        if worker.table.memory().saturating_mul(3) <= share || worker.table.is_empty() {
            return Ok(());
        }
        let empty = PieceTable::new(self.options.in_order);
        let table = std::mem::replace(&mut worker.table, empty);
        let mut spill = lock(&self.spill);
        let spill = match &mut *spill {
            Some(spill) => spill,
            none => none.insert(Spill::new(&self.options.spill_dir, self.options.in_order)?),
        };
        spill.append(&table)
    }
}

fn push_documents<'a>(tasks: &mut Vec<Task<'a>>, offsets: &'a [i64]) {
    if offsets.len() > 1 {
        tasks.push(Task::Documents(offsets));
    }
}

fn special_finder(special: &[String]) -> Result<AhoCorasick> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(special)
        .map_err(|error| Error::Input(format!("cannot search for the special tokens: {error}")))
}

fn as_text(bytes: &[u8], start: usize) -> Result<&str> {
    simdutf8::compat::from_utf8(bytes)
        .map_err(|error| Error::InvalidUtf8 { offset: start + error.valid_up_to() })
}

fn byte_count(texts: Texts<'_>) -> u64 {
    match texts.offsets {
        [first, .., last] => (last - first) as u64,
        _ => 0,
    }
}
