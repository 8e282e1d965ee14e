//! What one step does to the tokens on one side of its pair, gathered per neighbouring id.

use super::lists::Lists;

const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Gathered {
    weight: u64,
    places: u32,
    cursor: u32,
}

/// Dense per-id sums, the ids touched, and the new pairs' places in the order in which they were noted.
#[derive(Default)]
pub struct Neighbours {
    gathered: Vec<Gathered>,
    /// The ids noted in this step.
    pub touched: Vec<u32>,
    queue: Vec<(u32, u32)>,
}

impl Neighbours {
    /// For ids below `ids`.
    pub fn new(ids: usize) -> Self {
        Self { gathered: vec![Gathered::default(); ids], ..Self::default() }
    }

    /// Records that token `id` is next to the new token at a place of this weight; their pair starts at `start`.
    /// True the first time in a step.
    #[inline(always)]
    pub fn note(&mut self, id: u32, weight: u64, start: u32) -> bool {
        let entry = &mut self.gathered[id as usize];
        let first = entry.places == 0;
        if first {
            self.touched.push(id);
        }
        entry.weight += weight;
        entry.places += 1;
        self.queue.push((id, start));
        first
    }

    /// Returns the weight gathered for `id` so far.
    #[inline(always)]
    pub fn weight_of(&self, id: u32) -> u64 {
        self.gathered[id as usize].weight
    }

    /// Takes what was gathered for `id`: its weight and number of places.
    #[inline(always)]
    pub fn take(&mut self, id: u32) -> (u64, u32) {
        let entry = &mut self.gathered[id as usize];
        let taken = (entry.weight, entry.places);
        (entry.weight, entry.places) = (0, 0);
        taken
    }

    /// Sets where the places of `id` will be written; None if they are not needed.
    #[inline(always)]
    pub fn set_cursor(&mut self, id: u32, start: Option<u32>) {
        self.gathered[id as usize].cursor = start.unwrap_or(NOWHERE);
    }

    /// Writes every noted place into its list, in the order noted, and clears the step.
    pub fn scatter(&mut self, lists: &mut Lists) {
        for &(id, place) in &self.queue {
            let cursor = &mut self.gathered[id as usize].cursor;
            if *cursor != NOWHERE {
                lists.set(*cursor, place);
                *cursor += 1;
            }
        }
        self.queue.clear();
        self.touched.clear();
    }
}
