//! Many documents at once, on the caller's number of threads, into one flat array of ids.
//!
//! Documents are cut into jobs of some hundred KiB (a large document into several, where its cuts are
//! proven); threads take jobs in order, and the results are joined by one copy. The outcome does not
//! depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::added::Special;
use super::pool::Scratch;
use super::Codec;
use crate::{Error, Result, Stop};

/// Jobs hold about this much text: enough to hide the cost of a job, little enough to share out.
const JOB_BYTES: usize = 256 << 10;
/// Results are joined after this many jobs, so that the ids of a huge batch are not there twice.
const ROUND_JOBS: usize = 256;
/// A cut is looked for within this distance; a text without one in it is encoded whole.
const CUT_WINDOW: usize = 64 << 10;

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
    /// How many threads may work; at least one does.
    pub threads: usize,
}

/// A part of one document, or several whole documents.
#[derive(Debug, Clone, Copy)]
struct Job {
    first: usize,
    last: usize,
    /// The part of the document, when the job is one part of one document.
    part: Option<(usize, usize)>,
}

struct Done<T> {
    ids: Vec<T>,
    /// Ids of each document in the job.
    counts: Vec<usize>,
}

impl Codec {
    /// Encodes every document; ids are 16 bits wide when the whole vocabulary fits.
    pub fn encode_batch(&self, docs: &[&str], options: Options, stop: &Stop) -> Result<Batch> {
        let jobs = self.jobs(docs);
        let wide = self.bpe.vocabulary().id_limit() > 1 << 16;
        if wide {
            let (ids, offsets) = self.run(docs, &jobs, options, stop, |id| id)?;
            return Ok(Batch {
                ids: Ids::U32(ids),
                offsets,
            });
        }
        let (ids, offsets) = self.run(docs, &jobs, options, stop, |id| id as u16)?;
        Ok(Batch {
            ids: Ids::U16(ids),
            offsets,
        })
    }

    /// How many ids each document has, without keeping them.
    pub fn count_batch(&self, docs: &[&str], options: Options, stop: &Stop) -> Result<Vec<i64>> {
        let jobs = self.jobs(docs);
        let done = self.work(docs, &jobs, options, stop, |_, _: &mut Vec<u8>| {})?;
        let mut counts = vec![0i64; docs.len()];
        for (job, done) in jobs.iter().zip(&done) {
            for (at, count) in done.counts.iter().enumerate() {
                counts[job.first + at] += *count as i64;
            }
        }
        Ok(counts)
    }

    fn run<T: Copy + Send + Default>(
        &self,
        docs: &[&str],
        jobs: &[Job],
        options: Options,
        stop: &Stop,
        narrow: impl Fn(u32) -> T + Sync,
    ) -> Result<(Vec<T>, Vec<i64>)> {
        let keep = |ids: &[u32], out: &mut Vec<T>| out.extend(ids.iter().map(|&id| narrow(id)));
        let mut counts = vec![0i64; docs.len() + 1];
        let mut ids = Vec::new();
        for round in jobs.chunks(ROUND_JOBS) {
            let mut done = self.work(docs, round, options, stop, keep)?;
            for (job, done) in round.iter().zip(&done) {
                for (at, count) in done.counts.iter().enumerate() {
                    counts[job.first + at + 1] += *count as i64;
                }
            }
            if let ([one], true) = (done.as_mut_slice(), ids.is_empty()) {
                ids = std::mem::take(&mut one.ids);
                continue;
            }
            ids.reserve(done.iter().map(|done| done.ids.len()).sum());
            for one in done {
                ids.extend_from_slice(&one.ids);
            }
        }
        for i in 1..counts.len() {
            counts[i] += counts[i - 1];
        }
        Ok((ids, counts))
    }

    fn jobs(&self, docs: &[&str]) -> Vec<Job> {
        let mut jobs = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (at, doc) in docs.iter().enumerate() {
            if doc.len() >= 2 * JOB_BYTES && self.can_cut() {
                push_whole(&mut jobs, first, at);
                self.push_parts(&mut jobs, at, doc);
                (first, bytes) = (at + 1, 0);
                continue;
            }
            bytes += doc.len();
            if bytes >= JOB_BYTES || at - first >= 4096 {
                push_whole(&mut jobs, first, at + 1);
                (first, bytes) = (at + 1, 0);
            }
        }
        push_whole(&mut jobs, first, docs.len());
        jobs
    }

    fn push_parts(&self, jobs: &mut Vec<Job>, at: usize, doc: &str) {
        let mut start = 0;
        while start < doc.len() {
            let mut end = doc.len();
            let mut from = start + JOB_BYTES;
            while from + CUT_WINDOW < doc.len() {
                if let Some(cut) = self.cuts.next(doc, from, from + CUT_WINDOW) {
                    end = cut;
                    break;
                }
                from += CUT_WINDOW;
            }
            jobs.push(Job {
                first: at,
                last: at + 1,
                part: Some((start, end)),
            });
            start = end;
        }
    }

    fn work<T: Send>(
        &self,
        docs: &[&str],
        jobs: &[Job],
        options: Options,
        stop: &Stop,
        keep: impl Fn(&[u32], &mut Vec<T>) + Sync,
    ) -> Result<Vec<Done<T>>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Result<Done<T>>)>> = Mutex::new(Vec::new());
        let threads = options.threads.clamp(1, jobs.len().max(1));
        let total: usize = docs.iter().map(|doc| doc.len()).sum();
        let worker = || {
            let mut scratch = self.pool.take(&self.bpe, total / threads);
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { break };
                let outcome = self.one_job(docs, *job, options, stop, &mut scratch, &keep);
                let failed = outcome.is_err();
                mine.push((at, outcome));
                if failed {
                    next.store(jobs.len(), Ordering::Relaxed);
                }
            }
            self.pool.give(scratch);
            if let Ok(mut all) = results.lock() {
                all.append(&mut mine);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be had is work for the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
        let mut done = results
            .into_inner()
            .map_err(|_| Error::Internal("a worker thread ended early".into()))?;
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn one_job<T>(
        &self,
        docs: &[&str],
        job: Job,
        options: Options,
        stop: &Stop,
        scratch: &mut Scratch,
        keep: impl Fn(&[u32], &mut Vec<T>),
    ) -> Result<Done<T>> {
        let mut done = Done {
            ids: Vec::new(),
            counts: Vec::with_capacity(job.last - job.first),
        };
        let mut ids = std::mem::take(&mut scratch.ids);
        for (at, doc) in docs.iter().enumerate().take(job.last).skip(job.first) {
            stop.check()?;
            let (start, end) = job.part.unwrap_or((0, doc.len()));
            ids.clear();
            if options.template && start == 0 {
                ids.extend_from_slice(&self.template.0);
            }
            self.encode_into(
                &doc[start..end],
                options.special,
                start > 0,
                scratch,
                &mut ids,
            )
            .map_err(|error| in_document(error, at, start))?;
            if options.template && end == doc.len() {
                ids.extend_from_slice(&self.template.1);
            }
            keep(&ids, &mut done.ids);
            done.counts.push(ids.len());
        }
        scratch.ids = ids;
        Ok(done)
    }
}

fn push_whole(jobs: &mut Vec<Job>, first: usize, last: usize) {
    if first < last {
        jobs.push(Job {
            first,
            last,
            part: None,
        });
    }
}

fn in_document(error: Error, at: usize, start: usize) -> Error {
    match error {
        Error::Input(words) if start > 0 => Error::Input(format!(
            "document {at} (in the part that starts at byte {start}): {words}"
        )),
        Error::Input(words) => Error::Input(format!("document {at}: {words}")),
        other => other,
    }
}
