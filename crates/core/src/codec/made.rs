//! What one thread makes of its jobs.

use super::jobs::Job;
use crate::pages::room;

/// Bytes of text that make an id, at the least that is usual: room is set aside by it.
const BYTES_PER_ID: usize = 3;

/// What one thread made of the jobs that it took.
pub(super) struct Made<T> {
    pub(super) ids: Vec<T>,
    /// For each job: its number, and where its ids end.
    pub(super) ends: Vec<(usize, usize)>,
    /// Ids of each document, or part of one, of all jobs.
    pub(super) counts: Vec<usize>,
}

impl<T> Made<T> {
    /// Its memory, for other jobs.
    pub(super) fn cleared(mut self) -> Self {
        self.ids.clear();
        self.ends.clear();
        self.counts.clear();
        self
    }

    /// An empty array with room for the ids of about so many bytes of text.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self {
            ids: room(bytes / BYTES_PER_ID),
            ends: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Adds the number of ids of each document to the entry after its own.
    pub(super) fn count(&self, jobs: &[Job], offsets: &mut [i64]) {
        let mut counts = self.counts.iter();
        for (job, _) in &self.ends {
            let Job { first, last, .. } = jobs[*job];
            for (offset, count) in offsets[first + 1..=last].iter_mut().zip(&mut counts) {
                *offset += *count as i64;
            }
        }
    }
}
