//! Many documents at once, on the caller's number of threads, into one flat array of ids.
//!
//! Documents are cut into jobs of some hundred KiB (a large document into several, where its cuts are
//! proven). Threads take jobs in order and append to an output of their own: that of a single thread is
//! the result, those of several are joined by one copy. The outcome does not depend on their number.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use super::added::Special;
use super::pool::Scratch;
use super::Codec;
use crate::pages::room;
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

/// What one thread made: the ids of its jobs one after the other.
struct Share<T> {
    ids: Vec<T>,
    /// Ids of each document of each job.
    counts: Vec<usize>,
    /// Its jobs, which come in order, each with the ends of what it added to `ids` and `counts`.
    jobs: Vec<(usize, usize, usize)>,
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
        let shares = self.work(docs, &jobs, options, stop, |_, _: &mut Vec<()>| {})?;
        let mut counts = vec![0i64; docs.len()];
        add_counts(&shares, &jobs, &mut counts);
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
        let mut offsets = vec![0i64; docs.len() + 1];
        let mut ids = Vec::new();
        let round = if options.threads > 1 {
            ROUND_JOBS
        } else {
            jobs.len().max(1)
        };
        for jobs in jobs.chunks(round) {
            let mut shares = self.work(docs, jobs, options, stop, keep)?;
            add_counts(&shares, jobs, &mut offsets[1..]);
            if let ([one], true) = (shares.as_mut_slice(), ids.is_empty()) {
                ids = std::mem::take(&mut one.ids);
            } else {
                join(&shares, &mut ids);
            }
        }
        ids.shrink_to_fit();
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        Ok((ids, offsets))
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
    ) -> Result<Vec<Share<T>>> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<(usize, Result<Share<T>>)>> = Mutex::new(Vec::new());
        let threads = options.threads.clamp(1, jobs.len().max(1));
        let bytes = jobs.iter().map(|job| job.bytes(docs)).sum::<usize>() / threads;
        let worker = || {
            let mut scratch = self.pool.take(&self.bpe, bytes);
            let mut share = Share {
                ids: room_for_ids(bytes),
                counts: Vec::new(),
                jobs: Vec::new(),
            };
            let (mut outcome, mut at) = (Ok(()), 0);
            while outcome.is_ok() {
                at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { break };
                outcome = self.one_job(docs, *job, options, stop, &mut scratch, &mut share, &keep);
                share.jobs.push((at, share.ids.len(), share.counts.len()));
            }
            if outcome.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            self.pool.give(scratch);
            if let Ok(mut all) = results.lock() {
                all.push((at, outcome.map(|()| share)));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be had is work for the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, worker);
            }
            worker();
        });
        let mut shares = results
            .into_inner()
            .map_err(|_| Error::Internal("a worker thread ended early".into()))?;
        // Of several errors, that of the first job is told, whichever thread was faster.
        shares.sort_by_key(|(at, _)| *at);
        shares.into_iter().map(|(_, share)| share).collect()
    }

    #[allow(clippy::too_many_arguments)]
    fn one_job<T>(
        &self,
        docs: &[&str],
        job: Job,
        options: Options,
        stop: &Stop,
        scratch: &mut Scratch,
        share: &mut Share<T>,
        keep: impl Fn(&[u32], &mut Vec<T>),
    ) -> Result<()> {
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
            keep(&ids, &mut share.ids);
            share.counts.push(ids.len());
        }
        scratch.ids = ids;
        Ok(())
    }
}

impl Job {
    /// How much text it holds.
    fn bytes(&self, docs: &[&str]) -> usize {
        match self.part {
            Some((start, end)) => end - start,
            None => docs[self.first..self.last]
                .iter()
                .map(|doc| doc.len())
                .sum(),
        }
    }
}

/// Adds the counts of each job's documents; a document in several parts is counted in all of them.
fn add_counts<T>(shares: &[Share<T>], jobs: &[Job], counts: &mut [i64]) {
    for share in shares {
        let mut from = 0;
        for (at, _, end) in &share.jobs {
            let docs = &mut counts[jobs[*at].first..];
            for (sum, count) in docs.iter_mut().zip(&share.counts[from..*end]) {
                *sum += *count as i64;
            }
            from = *end;
        }
    }
}

/// Appends what the threads made, in the order of the jobs.
fn join<T: Copy>(shares: &[Share<T>], ids: &mut Vec<T>) {
    let mut parts = Vec::new();
    for share in shares {
        let mut from = 0;
        for (at, end, _) in &share.jobs {
            parts.push((*at, &share.ids[from..*end]));
            from = *end;
        }
    }
    parts.sort_by_key(|(at, _)| *at);
    let missing: usize = parts.iter().map(|(_, part)| part.len()).sum();
    if ids.is_empty() {
        *ids = room(missing);
    }
    ids.reserve(missing);
    for (_, part) in parts {
        ids.extend_from_slice(part);
    }
}

/// Room for the ids of that much text, as most text has them; more of them make it grow.
fn room_for_ids<T>(bytes: usize) -> Vec<T> {
    room(bytes / 3)
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
