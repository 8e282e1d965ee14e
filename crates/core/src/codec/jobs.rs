//! Documents as jobs for threads: several small documents, or a part of a large one.

use super::{Codec, Document};

/// Jobs hold about this much text: enough to hide the cost of a job, little enough to share out.
pub(super) const JOB_BYTES: usize = 256 << 10;
/// Documents from this size on are work for several threads.
pub(super) const LARGE: usize = 2 * JOB_BYTES;
/// A cut is looked for within this distance; a text without one in it is encoded whole.
const CUT_WINDOW: usize = 64 << 10;
/// More documents than this are not put into one job, however short they are.
const MOST_DOCUMENTS: usize = 4096;

/// A part of one document, or several whole documents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) first: usize,
    pub(super) last: usize,
    /// The part of the document, when the job is one part of one document.
    pub(super) part: Option<(usize, usize)>,
}

impl Codec {
    /// All documents in order, as jobs.
    pub(super) fn jobs(&self, docs: &[Document]) -> Vec<Job> {
        let mut jobs = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (at, doc) in docs.iter().enumerate() {
            if let Document::Utf8(text) = doc {
                if text.len() >= LARGE && self.can_cut() {
                    push_whole(&mut jobs, first, at);
                    self.push_parts(&mut jobs, at, text);
                    (first, bytes) = (at + 1, 0);
                    continue;
                }
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
