//! One array from those of several threads.

use std::mem::MaybeUninit;

use super::made::Made;
use super::width::Width;
use crate::pages::room;

/// Arrays from this size on are joined by all threads: their pages are new, which costs more than filling them.
const LARGE: usize = 4 << 20;

/// Moves the ids of jobs `0..count` to the end of `ids`, in the order of the jobs.
pub(super) fn join<T: Width>(made: &mut [Made<T>], count: usize, ids: &mut Vec<T>) {
    if let ([one], true) = (&mut *made, ids.is_empty()) {
        *ids = std::mem::take(&mut one.ids);
        if ids.capacity() > 2 * ids.len() {
            ids.shrink_to_fit();
        }
        return;
    }
    let mut lengths = vec![0; count];
    for made in &*made {
        for (job, part) in parts(made) {
            lengths[job] = part.len();
        }
    }
    let first = ids.len();
    let total: usize = lengths.iter().sum();
    if first == 0 {
        *ids = room(total);
    }
    ids.reserve(total);
    let mut rest = &mut ids.spare_capacity_mut()[..total];
    let mut places = Vec::with_capacity(count);
    for length in lengths {
        let (place, after) = rest.split_at_mut(length);
        places.push(Some(place));
        rest = after;
    }
    fill(made, places);
    // SAFETY: there was room for `total` more, and `fill` wrote them all: the places of all jobs make up this room,
    // and each job was made once, with as many ids as its place has.
    unsafe { ids.set_len(first + total) };
}

/// Copies every job's ids to its place, each thread those that it made.
fn fill<T: Width>(made: &[Made<T>], mut places: Vec<Option<&mut [MaybeUninit<T>]>>) {
    let mut copies = Vec::with_capacity(made.len());
    for made in made {
        let own = parts(made).filter_map(|(job, part)| Some((part, places[job].take()?)));
        copies.push(own.collect::<Vec<_>>());
    }
    let copy = |pairs: Vec<(&[T], &mut [MaybeUninit<T>])>| {
        for (from, to) in pairs {
            debug_assert_eq!(from.len(), to.len());
            // SAFETY: both have the same length, and one is exclusively ours.
            unsafe {
                std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast::<T>(), to.len());
            }
        }
    };
    let bytes: usize = made.iter().map(|made| size_of_val(&made.ids[..])).sum();
    if bytes < LARGE {
        return copies.into_iter().for_each(copy);
    }
    std::thread::scope(|scope| {
        for pairs in copies {
            scope.spawn(move || copy(pairs));
        }
    });
}

/// The number and the ids of each job.
fn parts<T>(made: &Made<T>) -> impl Iterator<Item = (usize, &[T])> {
    let mut start = 0;
    made.ends.iter().map(move |(job, end)| {
        let part = &made.ids[start..*end];
        start = *end;
        (*job, part)
    })
}
