//! Results of jobs that threads finish in any order, put into one array in job order.
//!
//! A thread encodes a job into an array of its own, which fits in its near cache. Once all jobs before it are known,
//! so is its place, and the thread that made it known copies it there: no thread waits for another, the ids never
//! exist twice, and the pages of the result, which are new, are first touched by all threads.

use std::mem::MaybeUninit;
use std::sync::Mutex;

use super::jobs::Job;
use super::width::Width;
use crate::{Error, Result};

/// The array that is being built, as far as some jobs fill it.
pub(super) struct Placing<'a, T> {
    jobs: &'a [Job],
    state: Mutex<State<'a, T>>,
}

struct State<'a, T> {
    /// The room that belongs to no job yet.
    rest: &'a mut [MaybeUninit<T>],
    /// The first job that has no place yet.
    next: usize,
    /// The ids of jobs that have no place because one before them is not done.
    waiting: Vec<Option<Vec<u32>>>,
    /// The number of ids of each document is added to the entry after its own.
    offsets: &'a mut [i64],
    /// Ids for which there was no room, and all ids after them.
    over: Vec<u32>,
    /// Arrays whose ids were copied.
    spare: Vec<Vec<u32>>,
    /// The first job that failed.
    failed: Option<(usize, Error)>,
}

/// Ids, and where they go.
type Copied<'a, T> = (Vec<u32>, &'a mut [MaybeUninit<T>]);

impl<'a, T: Width> Placing<'a, T> {
    pub(super) fn new(
        jobs: &'a [Job],
        rest: &'a mut [MaybeUninit<T>],
        offsets: &'a mut [i64],
    ) -> Self {
        let state = State {
            rest,
            next: 0,
            waiting: vec![None; jobs.len()],
            offsets,
            over: Vec::new(),
            spare: Vec::new(),
            failed: None,
        };
        Self { jobs, state: Mutex::new(state) }
    }

    /// Returns an empty array for the ids of a job.
    pub(super) fn array(&self) -> Vec<u32> {
        let spare = self.state.lock().ok();
        let mut array = spare.and_then(|mut state| state.spare.pop()).unwrap_or_default();
        array.clear();
        array
    }

    /// Takes the ids of a job, and the number of them for each of its documents.
    pub(super) fn put(&self, job: usize, ids: Vec<u32>, counts: &[usize]) -> Result<()> {
        let mut copies = Vec::new();
        {
            let mut state = self.state.lock().map_err(|_| ended_early())?;
            self.jobs[job].count(counts, state.offsets);
            state.waiting[job] = Some(ids);
            state.place(&mut copies);
        }
        for (from, to) in &mut copies {
            T::copy(from, to);
        }
        let mut state = self.state.lock().map_err(|_| ended_early())?;
        state.spare.extend(copies.into_iter().map(|(from, _)| from));
        Ok(())
    }

    /// Records an error: if there are several, that of the first document is reported, as a single thread would do.
    pub(super) fn fail(&self, job: usize, error: Error) {
        if let Ok(mut state) = self.state.lock() {
            if state.failed.as_ref().is_none_or(|(first, _)| job < *first) {
                state.failed = Some((job, error));
            }
        }
    }

    /// Returns how much of the room is left, and the ids that did not fit.
    pub(super) fn done(self) -> Result<(usize, Vec<u32>)> {
        let state = self.state.into_inner().map_err(|_| ended_early())?;
        if let Some((_, error)) = state.failed {
            return Err(error);
        }
        if state.next < self.jobs.len() {
            return Err(ended_early());
        }
        Ok((state.rest.len(), state.over))
    }
}

impl<'a, T: Width> State<'a, T> {
    /// Assigns a place to every job whose place is now known.
    fn place(&mut self, copies: &mut Vec<Copied<'a, T>>) {
        while let Some(ids) = self.waiting.get_mut(self.next).and_then(Option::take) {
            self.next += 1;
            let rest = std::mem::take(&mut self.rest);
            if self.over.is_empty() && ids.len() <= rest.len() {
                let (place, after) = rest.split_at_mut(ids.len());
                self.rest = after;
                copies.push((ids, place));
            } else {
                self.rest = rest;
                self.over.extend_from_slice(&ids);
            }
        }
    }
}

fn ended_early() -> Error {
    Error::Internal("a worker thread ended early".into())
}
