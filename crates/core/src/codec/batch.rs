//! Many documents at once, on the caller's number of threads, into one flat array of ids.
//!
//! Threads take jobs in order and append what they make to an array of their own. One thread's array is the
//! result as it stands; those of several are joined by one copy, in which all of them take part. The outcome does
//! not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::added::Special;
use super::document::{large_texts, with_texts, Document};
use super::jobs::{Job, JOB_BYTES};
use super::join::join;
use super::made::Made;
use super::pool::Scratch;
use super::width::Width;
use super::Codec;
use crate::{Error, Result, Stop};

/// Results of several threads are joined after this many jobs, so that the ids of a huge batch are not there twice,
/// and are copied before they leave the far cache.
const ROUND_JOBS: usize = 64;
/// Ids as narrow as the vocabulary allows.
#[derive(Debug, PartialEq, Eq)]
pub enum Ids {
    /// Every id fits 16 bits.
    U16(Vec<u16>),
    /// Some id needs more.
    U32(Vec<u32>),
}

/// Flat ids and where each document starts: `offsets` has one entry more than there are documents.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    /// The ids of all documents, one after the other.
    pub ids: Ids,
    /// Document `i` is `ids[offsets[i]..offsets[i + 1]]`.
    pub offsets: Vec<i64>,
}

/// How a batch is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What a special token's string means.
    pub special: Special,
    /// Whether the template's ids go around each document.
    pub template: bool,
    /// Ids of the caller's own before and after each document, which fit the vocabulary's width.
    pub frame: (Option<u32>, Option<u32>),
    /// How many threads may work; at least one does.
    pub threads: usize,
}

/// A batch in the making.
struct Task<'a> {
    docs: &'a [Document<'a>],
    options: Options,
    stop: &'a Stop,
    /// Bytes of text that one thread will see, about.
    share: usize,
}

impl Codec {
    /// Encodes every document; ids are 16 bits wide when the whole vocabulary fits.
    pub fn encode_batch(&self, docs: &[Document], options: Options, stop: &Stop) -> Result<Batch> {
        let wide = self.bpe.vocabulary().id_limit() > 1 << 16;
        let (ids, offsets) = if wide {
            let (ids, offsets) = self.run(docs, options, stop)?;
            (Ids::U32(ids), offsets)
        } else {
            let (ids, offsets) = self.run(docs, options, stop)?;
            (Ids::U16(ids), offsets)
        };
        Ok(Batch { ids, offsets })
    }

    /// How many ids each document has, without keeping them.
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
        let large = large_texts(docs)?;
        let docs = &with_texts(docs, &large);
        let jobs = self.jobs(docs);
        let bytes: usize = docs.iter().map(|doc| doc.bytes()).sum();
        options.threads = options.threads.clamp(1, jobs.len().max(1));
        let task = Task {
            docs,
            options,
            stop,
            share: bytes / options.threads,
        };
        let mut offsets = vec![0i64; docs.len() + 1];
        let mut ids = Vec::new();
        let round = if options.threads == 1 {
            jobs.len().max(1)
        } else {
            ROUND_JOBS
        };
        let mut made = Vec::new();
        for round in jobs.chunks(round) {
            made = self.work::<T>(&task, round, made)?;
            for made in &made {
                made.count(round, &mut offsets);
            }
            join(&mut made, round.len(), &mut ids);
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        Ok((ids, offsets))
    }

    /// One array of ids for each thread; together they hold every job once. Arrays of a round before are used
    /// again: new memory costs more than what is written to it.
    fn work<T: Width>(
        &self,
        task: &Task,
        jobs: &[Job],
        used: Vec<Made<T>>,
    ) -> Result<Vec<Made<T>>> {
        let next = AtomicUsize::new(0);
        let threads = task.options.threads.min(jobs.len());
        let results = Mutex::new(Vec::with_capacity(threads));
        let used = Mutex::new(used);
        let bytes = task.share.min(jobs.len() * JOB_BYTES * 2);
        let worker = || {
            let mut scratch = self.pool.take(&self.bpe, task.share);
            let made = used.lock().ok().and_then(|mut used| used.pop());
            let made = made.map_or_else(|| Made::with_room(bytes), Made::cleared);
            let outcome = self.take_jobs(task, jobs, &next, &mut scratch, made);
            self.pool.give(scratch);
            if let Ok(mut all) = results.lock() {
                all.push(outcome);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be had is work for the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
        let done = results
            .into_inner()
            .map_err(|_| Error::Internal("a worker thread ended early".into()))?;
        let mut made = Vec::with_capacity(done.len());
        let mut failed = None;
        for outcome in done {
            match outcome {
                Ok(one) => made.push(one),
                // Of several errors, the one of the first document is told, as one thread would.
                Err((job, error)) if failed.as_ref().is_none_or(|(first, _)| job < *first) => {
                    failed = Some((job, error));
                }
                Err(_) => {}
            }
        }
        failed.map_or(Ok(made), |(_, error)| Err(error))
    }

    fn take_jobs<T: Width>(
        &self,
        task: &Task,
        jobs: &[Job],
        next: &AtomicUsize,
        scratch: &mut Scratch,
        mut made: Made<T>,
    ) -> std::result::Result<Made<T>, (usize, Error)> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else {
                return Ok(made);
            };
            if let Err(error) = self.one_job(task, *job, scratch, &mut made) {
                next.store(jobs.len(), Ordering::Relaxed);
                return Err((at, error));
            }
            made.ends.push((at, made.ids.len()));
        }
    }

    fn one_job<T: Width>(
        &self,
        task: &Task,
        job: Job,
        scratch: &mut Scratch,
        made: &mut Made<T>,
    ) -> Result<()> {
        let Made { ids, counts, .. } = made;
        let mut work = std::mem::take(&mut scratch.ids);
        let outcome = T::append(ids, &mut work, |out| {
            let mut start = out.len();
            self.encode_job(task, job, scratch, out)?;
            counts.extend(scratch.state.take_ends().map(|end| {
                let count = end - start;
                start = end;
                count
            }));
            Ok(())
        });
        scratch.ids = work;
        outcome
    }

    /// Appends the ids of a job; the ends of its documents are in the state.
    fn encode_job(
        &self,
        task: &Task,
        job: Job,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let Options {
            template,
            special,
            frame,
            ..
        } = task.options;
        for at in job.first..job.last {
            task.stop.check()?;
            let mut buffer = std::mem::take(&mut scratch.text);
            let doc = task.docs[at].text(&mut buffer);
            let doc = doc.map_err(|error| in_document(error, at, 0))?;
            let (start, end) = job.part.unwrap_or((0, doc.len()));
            if start == 0 {
                out.extend(frame.0);
                out.extend_from_slice(if template { &self.template.0 } else { &[] });
            }
            self.encode_into(&doc[start..end], special, start > 0, scratch, out)
                .map_err(|error| in_document(error, at, start))?;
            if end == doc.len() {
                out.extend_from_slice(if template { &self.template.1 } else { &[] });
                out.extend(frame.1);
            }
            scratch.text = buffer;
            scratch.state.end_text(out);
        }
        self.bpe.finish(&mut scratch.state, out);
        Ok(())
    }
}

pub(super) fn in_document(error: Error, at: usize, start: usize) -> Error {
    match error {
        Error::Input(words) if start > 0 => Error::Input(format!(
            "document {at} (in the part that starts at byte {start}): {words}"
        )),
        Error::Input(words) => Error::Input(format!("document {at}: {words}")),
        other => other,
    }
}
