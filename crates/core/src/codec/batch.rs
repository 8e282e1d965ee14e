//! Many documents at once, on the caller's number of threads, into one flat array of ids.
//!
//! A single thread writes the result directly. Several threads take jobs in order, and `placing` puts their results
//! in order. The outcome does not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::added::{Part, Special};
use super::document::Document;
use super::jobs::{Job, JOB_BYTES};
use super::placing::Placing;
use super::pool::Scratch;
use super::width::Width;
use super::Codec;
use crate::bpe::Writer;
use crate::pages::{filled, room};
use crate::{Error, Result, Stop};

/// Jobs in one round, in which some may wait for a slow one: this bounds how many wait.
const ROUND_JOBS: usize = 256;
/// Bytes of text per id, at the low end of what is usual: used to reserve room.
const BYTES_PER_ID: usize = 3;
/// Ids as narrow as the vocabulary allows.
#[derive(Debug, PartialEq, Eq)]
pub enum Ids {
    /// Every id fits in 16 bits.
    U16(Vec<u16>),
    /// Some id needs more.
    U32(Vec<u32>),
}

/// Flat ids and where each document starts: `offsets` has one more entry than there are documents.
#[derive(Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The ids of all documents, one after the other.
    pub ids: Ids,
    /// Document `i` is `ids[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<i64>,
}

/// How a batch is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How the string of a special token is treated.
    pub special: Special,
    /// Whether the template's ids go around each document.
    pub template: bool,
    /// The caller's own ids before and after each document, which must fit the vocabulary's width.
    pub frame: (Option<u32>, Option<u32>),
    /// How many threads may be used; at least one is.
    pub threads: usize,
}

/// A batch that is being encoded.
struct Task<'a> {
    docs: &'a [Document<'a>],
    options: Options,
    stop: &'a Stop,
    /// Bytes of text that one thread will see, approximately.
    share: usize,
}

impl Codec {
    /// Encodes every document; ids are 16 bits wide when the whole vocabulary fits.
    pub fn encode_batch(
        &self,
        docs: &[Document],
        options: Options,
        stop: &Stop,
    ) -> Result<Encoded> {
        let wide = self.bpe.vocabulary().id_limit() > 1 << 16;
        let (ids, offsets) = if wide {
            let (ids, offsets) = self.run(docs, options, stop)?;
            (Ids::U32(ids), offsets)
        } else {
            let (ids, offsets) = self.run(docs, options, stop)?;
            (Ids::U16(ids), offsets)
        };
        Ok(Encoded { ids, offsets })
    }

    /// Returns how many ids each document has, without keeping them.
    pub fn count_batch(
        &self,
        docs: &[Document],
        options: Options,
        stop: &Stop,
    ) -> Result<Vec<i64>> {
        let (_, offsets) = self.run::<()>(docs, options, stop)?;
        Ok(offsets.windows(2).map(|pair| pair[1] - pair[0]).collect())
    }

    fn run<T: Width>(
        &self,
        docs: &[Document],
        mut options: Options,
        stop: &Stop,
    ) -> Result<(Vec<T>, Vec<i64>)> {
        let jobs = self.jobs(docs);
        let bytes: usize = docs.iter().map(|doc| doc.bytes()).sum();
        options.threads = options.threads.clamp(1, jobs.len().max(1));
        let task = Task { docs, options, stop, share: bytes / options.threads };
        let mut offsets = filled(0i64, docs.len() + 1);
        let mut ids = room(bytes / BYTES_PER_ID);
        if options.threads == 1 {
            self.run_alone(&task, &jobs, &mut ids, &mut offsets)?;
        } else {
            for round in jobs.chunks(ROUND_JOBS) {
                self.run_round(&task, round, &mut ids, &mut offsets)?;
            }
        }
        if ids.capacity() > 2 * ids.len() {
            ids.shrink_to_fit();
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        Ok((ids, offsets))
    }

    fn run_alone<T: Width>(
        &self,
        task: &Task,
        jobs: &[Job],
        ids: &mut Vec<T>,
        offsets: &mut [i64],
    ) -> Result<()> {
        let mut scratch = self.pool.take(&self.bpe, task.share);
        let mut work = std::mem::take(&mut scratch.ids);
        let mut counts = Vec::new();
        let outcome = jobs.iter().try_for_each(|job| {
            if jobs.len() > 1 {
                ids.reserve(JOB_BYTES / BYTES_PER_ID);
            }
            T::append(ids, &mut work, |out| {
                self.encode_job(task, *job, &mut scratch, out, &mut counts)
            })?;
            job.count(&counts, offsets);
            Ok(())
        });
        scratch.ids = work;
        self.pool.give(scratch);
        outcome
    }

    fn run_round<T: Width>(
        &self,
        task: &Task,
        jobs: &[Job],
        ids: &mut Vec<T>,
        offsets: &mut [i64],
    ) -> Result<()> {
        let first = ids.len();
        if first > 0 {
            ids.reserve(jobs.len() * JOB_BYTES / BYTES_PER_ID);
        }
        let spare = ids.spare_capacity_mut();
        let spared = spare.len();
        let placing = Placing::new(jobs, spare, offsets);
        let next = AtomicUsize::new(0);
        let worker = || self.take_jobs(task, jobs, &next, &placing);
        std::thread::scope(|scope| {
            for _ in 1..task.options.threads.min(jobs.len()) {
                // If a thread cannot be started, the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
        let (left, over) = placing.done()?;
        // SAFETY: `done` reports that all but `left` of the spare room was given to jobs, whose ids were copied there
        // before their threads ended.
        unsafe { ids.set_len(first + spared - left) };
        ids.extend(over.into_iter().map(T::of));
        Ok(())
    }

    fn take_jobs<T: Width>(
        &self,
        task: &Task,
        jobs: &[Job],
        next: &AtomicUsize,
        placing: &Placing<T>,
    ) {
        let mut scratch = self.pool.take(&self.bpe, task.share);
        let mut counts = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                break;
            };
            let mut ids = placing.array();
            let outcome = self.encode_job(task, *job, &mut scratch, &mut ids, &mut counts);
            if let Err(error) = outcome.and_then(|()| placing.put(at, ids, &counts)) {
                next.store(jobs.len(), Ordering::Relaxed);
                // The state is not kept: it may have been left in the middle of something.
                return placing.fail(at, error);
            }
        }
        self.pool.give(scratch);
    }

    /// Appends the ids of a job; `counts` receives the number for each of its documents.
    fn encode_job(
        &self,
        task: &Task,
        job: Job,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
        counts: &mut Vec<usize>,
    ) -> Result<()> {
        let mut first = out.len();
        let Scratch { state, parts, text, .. } = scratch;
        let mut writer = self.bpe.writer(state, out);
        for at in job.first..job.last {
            task.stop.check()?;
            self.encode_document(task, at, job.part, (text, parts), &mut writer)?;
            writer.end_text();
        }
        drop(writer);
        counts.clear();
        counts.extend(state.take_ends().map(|end| {
            let count = end - first;
            first = end;
            count
        }));
        Ok(())
    }

    /// Appends the ids of a document or part of one; the two buffers are working space.
    fn encode_document(
        &self,
        task: &Task,
        at: usize,
        part: Option<(usize, usize)>,
        (buffer, parts): (&mut String, &mut Vec<Part>),
        out: &mut Writer,
    ) -> Result<()> {
        let Options { template, special, frame, .. } = task.options;
        let doc = task.docs[at];
        let (start, end) = part.unwrap_or((0, doc.units()));
        let text = doc.part(start..end, buffer).map_err(|error| in_document(error, at, ""))?;
        if start == 0 {
            out.extend(frame.0);
            out.extend(self.template.0.iter().filter(|_| template).copied());
        }
        self.encode_into(text, special, start > 0, parts, out)
            .map_err(|error| in_document(error, at, &in_part(doc, start)))?;
        if end == doc.units() {
            out.extend(self.template.1.iter().filter(|_| template).copied());
            out.extend(frame.1);
        }
        Ok(())
    }
}

fn in_document(error: Error, at: usize, part: &str) -> Error {
    match error {
        Error::Input(words) => Error::Input(format!("document {at}{part}: {words}")),
        other => other,
    }
}

/// Returns which part of its document a text is.
fn in_part(doc: Document, start: usize) -> String {
    let unit = match doc {
        _ if start == 0 => return String::new(),
        Document::Utf8(_) => "byte",
        _ => "character",
    };
    format!(" (in the part that starts at {unit} {start})")
}
