//! Counting: blocks of texts -> one table of pieces per thread -> their sum.
//!
//! Each thread keeps its own table from block to block, so threads never wait for each other; a table
//! that passes its share of the budget goes to disk by itself.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};

use super::counts::Counts;
use super::cut::stretches;
use super::spill::Spill;
use super::table::PieceTable;
use crate::scan::{ScanSpec, Scanner};
use crate::{Error, Result, Stop};

/// A thread takes about this much text at a time, and looks at its budget in between.
const TASK_BYTES: usize = 1 << 20;

/// How to count.
pub struct CountOptions {
    /// How many threads; at least one.
    pub threads: usize,
    /// What all tables together may hold.
    pub memory_budget: usize,
    /// Where to put what does not fit.
    pub spill_dir: PathBuf,
    /// Pieces never span one of these, and their own text is not counted.
    pub special_tokens: Vec<String>,
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
    cuttable: bool,
    special: Option<AhoCorasick>,
    workers: Vec<Worker>,
    spill: Mutex<Option<Spill>>,
    options: CountOptions,
    totals: Totals,
}

#[derive(Default)]
struct Worker {
    table: PieceTable,
    pieces: u64,
}

/// What one thread takes at a time: some whole documents, or a stretch of a long one.
enum Task<'a> {
    Documents(&'a [i64]),
    Stretch(&'a [u8]),
}

impl Counter {
    /// Compiles the pattern; nothing is written before the budget is passed.
    pub fn new(spec: &ScanSpec, options: CountOptions) -> Result<Self> {
        let special = match options.special_tokens.as_slice() {
            [] => None,
            some => Some(special_finder(some)?),
        };
        Ok(Self {
            scanner: Scanner::new(spec)?,
            cuttable: !matches!(spec, ScanSpec::Chain(_)),
            special,
            workers: (0..options.threads.max(1))
                .map(|_| Worker::default())
                .collect(),
            spill: Mutex::new(None),
            options,
            totals: Totals::default(),
        })
    }

    /// Counts the pieces of a block.
    pub fn count(&mut self, texts: Texts<'_>, stop: &Stop) -> Result<()> {
        check_offsets(texts)?;
        let tasks = self.tasks(texts)?;
        let mut workers = std::mem::take(&mut self.workers);
        let next = AtomicUsize::new(0);
        let run = |worker: &mut Worker| -> Result<()> {
            while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                stop.check()?;
                self.count_task(worker, task, texts.data)?;
                self.relieve(worker)?;
            }
            Ok(())
        };
        let outcome = std::thread::scope(|scope| {
            let (first, others) = workers.split_at_mut(1);
            let handles: Vec<_> = others
                .iter_mut()
                .take(tasks.len().saturating_sub(1))
                .map(|worker| scope.spawn(|| run(worker)))
                .collect();
            let mine = first.iter_mut().try_for_each(run);
            let theirs = handles.into_iter().map(|handle| {
                let lost = || Error::Internal("a counting thread panicked".into());
                handle.join().unwrap_or_else(|_| Err(lost()))
            });
            theirs.fold(mine, Result::and)
        });
        self.workers = workers;
        outcome?;
        self.totals.documents += texts.offsets.len().saturating_sub(1) as u64;
        self.totals.bytes += covered(texts);
        Ok(())
    }

    /// Adds counts made earlier.
    pub fn add(&mut self, pieces: Texts<'_>, counts: &[u64], stop: &Stop) -> Result<()> {
        check_offsets(pieces)?;
        if counts.len() + 1 != pieces.offsets.len() {
            return Err(Error::Input(format!(
                "{} counts for {} pieces",
                counts.len(),
                pieces.offsets.len().saturating_sub(1)
            )));
        }
        let mut worker = std::mem::take(&mut self.workers[0]);
        let mut outcome = Ok(());
        for (i, (span, &count)) in pieces.offsets.windows(2).zip(counts).enumerate() {
            worker
                .table
                .add(&pieces.data[span[0] as usize..span[1] as usize], count);
            worker.pieces = worker.pieces.saturating_add(count);
            if i % 4096 == 0 {
                outcome = stop.check().and_then(|()| self.relieve(&mut worker));
                if outcome.is_err() {
                    break;
                }
            }
        }
        self.workers[0] = worker;
        outcome
    }

    /// How much has been counted so far.
    pub fn totals(&self) -> Totals {
        let pieces = self.workers.iter().map(|worker| worker.pieces).sum();
        Totals {
            pieces,
            ..self.totals
        }
    }

    /// Bytes held by the tables.
    pub fn memory(&self) -> usize {
        self.workers
            .iter()
            .map(|worker| worker.table.memory())
            .sum()
    }

    /// Sums the tables of all threads and of the disk.
    pub fn finish(mut self, stop: &Stop) -> Result<Counts> {
        let mut tables: Vec<PieceTable> =
            self.workers.drain(..).map(|worker| worker.table).collect();
        tables.sort_by_key(PieceTable::len);
        let spill = self.spill.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut spill) = spill.take() {
            for table in tables.drain(..) {
                spill.append(&table)?;
            }
            return spill.finish(stop).map(Counts::on_disk);
        }
        let mut sum = tables.pop().unwrap_or_default();
        while let Some(table) = tables.pop() {
            stop.check()?;
            sum.absorb(&table);
        }
        Ok(Counts::in_memory(sum))
    }

    fn tasks<'a>(&self, texts: Texts<'a>) -> Result<Vec<Task<'a>>> {
        let Texts { data, offsets } = texts;
        let mut tasks = Vec::new();
        let mut first = 0;
        for i in 1..offsets.len() {
            let (start, end) = (offsets[i - 1] as usize, offsets[i] as usize);
            if self.cuttable && end - start > 2 * TASK_BYTES {
                push_documents(&mut tasks, &offsets[first..i]);
                first = i;
                self.cut(&data[start..end], &mut tasks)?;
            } else if end - offsets[first] as usize >= TASK_BYTES {
                push_documents(&mut tasks, &offsets[first..=i]);
                first = i;
            }
        }
        push_documents(&mut tasks, offsets.get(first..).unwrap_or_default());
        Ok(tasks)
    }

    /// Cuts a long document around its special tokens, then at safe places.
    fn cut<'a>(&self, document: &'a [u8], tasks: &mut Vec<Task<'a>>) -> Result<()> {
        let text = as_text(document)?;
        self.for_each_part(text, &mut |part: &'a str| {
            let mut start = 0;
            for end in stretches(part.as_bytes(), TASK_BYTES) {
                tasks.push(Task::Stretch(&part.as_bytes()[start..end]));
                start = end;
            }
            Ok(())
        })
    }

    fn for_each_part<'a>(
        &self,
        text: &'a str,
        each: &mut dyn FnMut(&'a str) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        if let Some(special) = &self.special {
            for found in special.find_iter(text) {
                each(&text[start..found.start()])?;
                start = found.end();
            }
        }
        each(&text[start..])
    }

    fn count_task(&self, worker: &mut Worker, task: &Task<'_>, data: &[u8]) -> Result<()> {
        match task {
            Task::Documents(offsets) => offsets.windows(2).try_for_each(|span| {
                let text = as_text(&data[span[0] as usize..span[1] as usize])?;
                self.for_each_part(text, &mut |part| self.count_text(worker, part))
            }),
            Task::Stretch(bytes) => self.count_text(worker, as_text(bytes)?),
        }
    }

    fn count_text(&self, worker: &mut Worker, text: &str) -> Result<()> {
        self.scanner.for_each_piece(text, |piece| {
            worker.table.add(piece, 1);
            worker.pieces += 1;
        })
    }

    /// Sends a table to disk if it may pass its share of the budget before the next look. A table that
    /// grows holds three times its size for a moment.
    fn relieve(&self, worker: &mut Worker) -> Result<()> {
        let share = self.options.memory_budget / self.options.threads.max(1);
        if worker.table.memory().saturating_mul(3) <= share || worker.table.is_empty() {
            return Ok(());
        }
        let table = std::mem::take(&mut worker.table);
        let mut spill = self.spill.lock().unwrap_or_else(PoisonError::into_inner);
        if spill.is_none() {
            *spill = Some(Spill::new(&self.options.spill_dir)?);
        }
        match spill.as_mut() {
            Some(spill) => spill.append(&table),
            None => Ok(()),
        }
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
        .map_err(|error| {
            Error::Input(format!(
                "the special tokens cannot be searched for: {error}"
            ))
        })
}

fn as_text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| Error::InvalidUtf8 {
        offset: error.valid_up_to(),
    })
}

fn covered(texts: Texts<'_>) -> u64 {
    match texts.offsets {
        [first, .., last] => (last - first) as u64,
        _ => 0,
    }
}

fn check_offsets(texts: Texts<'_>) -> Result<()> {
    let ascending = texts.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let first = texts.offsets.first().is_none_or(|&first| first >= 0);
    let last = texts
        .offsets
        .last()
        .is_none_or(|&last| last <= texts.data.len() as i64);
    if ascending && first && last {
        return Ok(());
    }
    Err(Error::Input("offsets must ascend within the buffer".into()))
}
