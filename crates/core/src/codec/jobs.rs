//! Documents as jobs for threads: several small documents, or a part of a large one.

use super::{Codec, Document};

/// Jobs hold about this much text: enough to hide the cost of a job, little enough to share out.
pub(super) const JOB_BYTES: usize = 256 << 10;
/// Documents of this size or more are shared by several threads.
const LARGE: usize = 2 * JOB_BYTES;
/// Units of a document in which a cut is looked for at a time.
const CUT_WINDOW: usize = 4 << 10;
/// At most this many documents go into one job, however short they are.
const MOST_DOCUMENTS: usize = 4096;

/// A part of one document, or several whole documents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) first: usize,
    pub(super) last: usize,
    /// The part of the document, in its units, when the job is one part of one document.
    pub(super) part: Option<(usize, usize)>,
}

impl Job {
    /// Adds the number of ids of each of its documents to the entry after its own.
    pub(super) fn count(self, counts: &[usize], offsets: &mut [i64]) {
        let after = &mut offsets[self.first + 1..=self.last];
        for (offset, count) in after.iter_mut().zip(counts) {
            *offset += *count as i64;
        }
    }
}

impl Codec {
    /// Returns all documents in order, as jobs.
    pub(super) fn jobs(&self, docs: &[Document]) -> Vec<Job> {
        let mut jobs = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (at, doc) in docs.iter().enumerate() {
            if doc.bytes() >= LARGE && self.can_cut() {
                push_whole(&mut jobs, first, at);
                self.push_parts(&mut jobs, at, *doc);
                (first, bytes) = (at + 1, 0);
                continue;
            }
            bytes += doc.bytes();
            if bytes >= JOB_BYTES || at - first >= MOST_DOCUMENTS {
                push_whole(&mut jobs, first, at + 1);
                (first, bytes) = (at + 1, 0);
            }
        }
        push_whole(&mut jobs, first, docs.len());
        jobs
    }

    fn push_parts(&self, jobs: &mut Vec<Job>, at: usize, doc: Document) {
        let mut start = 0;
        while start < doc.units() {
            let end = self.part_end(doc, start);
            jobs.push(Job { first: at, last: at + 1, part: Some((start, end)) });
            start = end;
        }
    }

    /// Returns where a part that starts at `start` may end, a job's worth of text later.
    fn part_end(&self, doc: Document, start: usize) -> usize {
        let mut from = start + JOB_BYTES / doc.bytes_per_unit();
        let mut buffer = String::new();
        while from + CUT_WINDOW < doc.units() {
            if let Some(cut) = self.cut_from(doc, from, &mut buffer) {
                return cut;
            }
            from += CUT_WINDOW;
        }
        doc.units()
    }

    /// Returns the first cut of a window.
    fn cut_from(&self, doc: Document, from: usize, buffer: &mut String) -> Option<usize> {
        if let Document::Utf8(text) = doc {
            return self.cuts.next(text.as_bytes(), from, from + CUT_WINDOW);
        }
        // Only the text that decides is converted to UTF-8; if a character in it is invalid, the worker that reaches
        // it reports the error.
        let context = self.cuts.context();
        let low = from.saturating_sub(context);
        let high = doc.units().min(from + CUT_WINDOW + context);
        let text = doc.part(low..high, buffer).ok()?;
        let place = |unit: usize| text.char_indices().nth(unit - low).map(|(at, _)| at);
        let (from, to) = (place(from)?, place(from + CUT_WINDOW)?);
        let cut = self.cuts.next(text.as_bytes(), from, to)?;
        Some(low + text[..cut].chars().count())
    }
}

fn push_whole(jobs: &mut Vec<Job>, first: usize, last: usize) {
    if first < last {
        jobs.push(Job { first, last, part: None });
    }
}
