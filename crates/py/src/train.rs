//! Training for Python: a counter of pieces, the finished counts, and a run of merges.
//!
//! Each object but the counter is used by one caller at a time; the lock makes a second one wait.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyMemoryView;
use tokenmill_core::bpe::{MergeList, Tokens as TokenTable};
use tokenmill_core::scan::ScanSpec;
use tokenmill_core::train::{
    CountOptions, Counter, Counts, MergeOptions, Merger, Texts, TieBreak, TokenList, Veto, Words,
};
use tokenmill_core::{Error, Result};

use crate::error::{run_long, run_short, to_py};
use crate::flat::{view, Borrowed};
use crate::vocabulary::{Merges, Tokens};

type Array<'py, T> = Bound<'py, PyArray1<T>>;
type Columns<'py> = (Array<'py, u8>, Array<'py, i64>, Array<'py, u64>);

/// Adds the classes of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PieceCounter>()?;
    module.add_class::<PieceCounts>()?;
    module.add_class::<PairMerger>()?;
    module.add_function(wrap_pyfunction!(in_scripts, module)?)
}

/// Return whether each token is written in these scripts.
#[pyfunction]
fn in_scripts(
    py: Python<'_>,
    tokens: Vec<PyBackedBytes>,
    scripts: Vec<String>,
) -> PyResult<Vec<bool>> {
    run_short(py, || tokenmill_core::train::in_scripts(&tokens, &scripts))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counter_is_finished() -> Error {
    Error::Input("a piece counter can be finished only once; make a new one".into())
}

fn counts_are_merged() -> Error {
    Error::Input("piece counts can be merged only once; count again".into())
}

/// Counts the pieces of blocks of texts; several threads may call it at a time.
#[pyclass(frozen, module = "tokenmill._core")]
struct PieceCounter(RwLock<Option<Counter>>);

impl PieceCounter {
    fn with<T>(&self, work: impl FnOnce(&Counter) -> Result<T>) -> Result<T> {
        let counter: RwLockReadGuard<'_, _> = self.0.read().unwrap_or_else(PoisonError::into_inner);
        counter.as_ref().map_or_else(|| Err(counter_is_finished()), work)
    }
}

#[pymethods]
impl PieceCounter {
    #[new]
    #[pyo3(signature = (pattern, special_tokens, threads, memory_budget, spill_dir, *, in_order=false))]
    fn new(
        pattern: &str,
        special_tokens: Vec<String>,
        threads: usize,
        memory_budget: usize,
        spill_dir: PathBuf,
        in_order: bool,
    ) -> PyResult<Self> {
        let spec = ScanSpec::from_choice(pattern).map_err(|error| to_py(&error))?;
        let options = CountOptions { threads, memory_budget, spill_dir, special_tokens, in_order };
        let counter = Counter::new(&spec, options).map_err(|error| to_py(&error))?;
        Ok(Self(RwLock::new(Some(counter))))
    }

    /// Counts the pieces of `data[offsets[i]:offsets[i + 1]]` for every i.
    fn count(&self, py: Python<'_>, data: Borrowed<u8>, offsets: Borrowed<i64>) -> PyResult<()> {
        let texts = Texts { data: data.as_slice()?, offsets: offsets.as_slice()? };
        run_long(py, |stop| self.with(|counter| counter.count(texts, stop)))
    }

    /// Return the last byte at which a text that begins with `data` can be cut; 0 if nowhere.
    fn last_cut(&self, py: Python<'_>, data: Borrowed<u8>) -> PyResult<usize> {
        let data = data.as_slice()?;
        run_short(py, || self.with(|counter| Ok(counter.cuts().last(data).unwrap_or(0))))
    }

    /// Adds pieces with their counts.
    fn add(
        &self,
        py: Python<'_>,
        data: Borrowed<u8>,
        offsets: Borrowed<i64>,
        counts: Borrowed<u64>,
    ) -> PyResult<()> {
        let pieces = Texts { data: data.as_slice()?, offsets: offsets.as_slice()? };
        let counts = counts.as_slice()?;
        run_long(py, |stop| self.with(|counter| counter.add(pieces, counts, stop)))
    }

    /// (documents, bytes, pieces, bytes of memory held) so far.
    fn totals(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, usize)> {
        run_short(py, || {
            self.with(|counter| {
                let totals = counter.totals();
                let memory = counter.memory();
                Ok((totals.documents, totals.bytes, totals.pieces, memory))
            })
        })
    }

    /// Sums everything; the counter is used up.
    fn finish(&self, py: Python<'_>) -> PyResult<PieceCounts> {
        let take = || self.0.write().unwrap_or_else(PoisonError::into_inner).take();
        let counts = run_long(py, |stop| match take() {
            Some(counter) => counter.finish(stop),
            None => Err(counter_is_finished()),
        })?;
        Ok(PieceCounts(Mutex::new(Some(counts))))
    }
}

/// Distinct pieces with their counts.
#[pyclass(frozen, module = "tokenmill._core")]
struct PieceCounts(Mutex<Option<Counts>>);

impl PieceCounts {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Counts) -> Result<T> + Send,
    ) -> PyResult<T> {
        run_long(py, |_| match lock(&self.0).as_ref() {
            Some(counts) => work(counts),
            None => Err(counts_are_merged()),
        })
    }
}

#[pymethods]
impl PieceCounts {
    /// Return how many distinct pieces there are.
    fn unique(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |counts| Ok(counts.unique()))
    }

    /// Bytes that went to disk while counting.
    fn spilled_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |counts| Ok(counts.spilled_bytes()))
    }

    /// Return how many batches there are.
    fn batches(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |counts| Ok(counts.batches()))
    }

    /// Batch `part` as (data, offsets, counts).
    fn batch<'py>(&self, py: Python<'py>, part: usize) -> PyResult<Columns<'py>> {
        let batch = self.with(py, |counts| counts.batch(part))?;
        Ok((
            batch.data.into_pyarray(py),
            batch.offsets.into_pyarray(py),
            batch.counts.into_pyarray(py),
        ))
    }
}

/// A run of merges over counts.
#[pyclass(frozen, module = "tokenmill._core")]
struct PairMerger {
    merger: Mutex<Merger>,
    pieces: u64,
}

#[pymethods]
impl PairMerger {
    /// Takes the counts, which are used up.
    #[new]
    #[allow(clippy::too_many_arguments)] // keyword arguments on the Python side
    #[pyo3(signature = (counts, tokens, min_frequency, min_piece_frequency, max_token_length, tie_break, unify))]
    fn new(
        py: Python<'_>,
        counts: &PieceCounts,
        tokens: usize,
        min_frequency: u64,
        min_piece_frequency: u64,
        max_token_length: u32,
        tie_break: &str,
        unify: bool,
    ) -> PyResult<Self> {
        run_long(py, |_| {
            let options = MergeOptions {
                tokens,
                min_frequency,
                max_token_length,
                tie: TieBreak::from_name(tie_break)?,
                unify,
            };
            let taken = lock(&counts.0).take();
            let mut counts = taken.ok_or_else(counts_are_merged)?;
            let words = Words::build_for(options.tie, &mut counts, min_piece_frequency)?;
            drop(counts);
            let pieces = words.pieces;
            Ok(Self { merger: Mutex::new(Merger::new(words, options)?), pieces })
        })
    }

    /// Continues from the vocabulary `data[ends[id]:ends[id + 1]]`, in which an unused id is empty.
    /// `ids[offsets[i]:offsets[i + 1]]` is a word of its tokens that occurs
    /// `counts[i]` times; `apart` are pairs of ids that must not merge, one after the other; a new token
    /// has letters of `scripts` alone, if any are named.
    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // keyword arguments on the Python side
    #[pyo3(signature = (data, ends, ids, offsets, counts, *, tokens, min_frequency, max_token_length, tie_break, apart, scripts, whole_characters))]
    fn from_vocabulary(
        py: Python<'_>,
        data: Borrowed<u8>,
        ends: Borrowed<i64>,
        ids: Borrowed<u32>,
        offsets: Borrowed<i64>,
        counts: Borrowed<u64>,
        tokens: usize,
        min_frequency: u64,
        max_token_length: u32,
        tie_break: &str,
        apart: Borrowed<u32>,
        scripts: Vec<String>,
        whole_characters: bool,
    ) -> PyResult<Self> {
        let (ids, offsets, counts) = (ids.as_slice()?, offsets.as_slice()?, counts.as_slice()?);
        let apart = pairs_of(apart.as_slice()?);
        let (data, ends) = (data.as_slice()?, ends.as_slice()?);
        run_long(py, |_| {
            let options = MergeOptions {
                tokens,
                min_frequency,
                max_token_length,
                tie: TieBreak::from_name(tie_break)?,
                unify: true,
            };
            let veto = Veto::new(&apart, &scripts, whole_characters)?;
            let base = ends
                .windows(2)
                .map(|range| data.get(range[0] as usize..range[1] as usize).unwrap_or(&[]));
            let known = TokenList::from_tokens(base, tokens.saturating_sub(ends.len()));
            let words = Words::of_tokens(ids, offsets, counts, &known)?;
            let pieces = words.pieces;
            let merger = Merger::from_vocabulary(words, known, options, veto)?;
            Ok(Self { merger: Mutex::new(merger), pieces })
        })
    }

    /// Makes these pairs the next merges, whatever their counts.
    fn require(&self, py: Python<'_>, pairs: Borrowed<u32>) -> PyResult<()> {
        let pairs = pairs_of(pairs.as_slice()?);
        run_short(py, || {
            let mut merger = lock(&self.merger);
            pairs.iter().try_for_each(|&(left, right)| merger.require(left, right).map(drop))
        })
    }

    /// Does up to `limit` steps; true when nothing is left to do.
    fn advance(&self, py: Python<'_>, limit: usize) -> PyResult<bool> {
        run_long(py, |stop| lock(&self.merger).advance(limit, stop))
    }

    /// Repeats the steps of an earlier run: left and right ids, one after the other.
    fn replay(&self, py: Python<'_>, steps: Borrowed<u32>) -> PyResult<()> {
        let steps = pairs_of(steps.as_slice()?);
        run_long(py, |stop| lock(&self.merger).replay(&steps, stop))
    }

    /// (merges, tokens, bytes of memory held) so far.
    fn progress(&self) -> (usize, usize, usize) {
        let merger = lock(&self.merger);
        (merger.merges().len(), merger.tokens().len(), merger.memory())
    }

    /// Return how many distinct pieces take part.
    #[getter]
    fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Return the merges so far.
    fn merges(&self, py: Python<'_>) -> PyResult<Merges> {
        run_short(py, || {
            let merger = lock(&self.merger);
            let pairs = merger.merges().to_vec();
            let checked = MergeList::checked(pairs, merger.products().to_vec());
            let twice = |_| Error::Internal("a merge is listed twice".into());
            checked.map(Merges::new).map_err(twice)
        })
    }

    /// Return what `replay` needs.
    fn steps<'py>(&self, py: Python<'py>) -> Array<'py, u32> {
        flat(lock(&self.merger).steps()).into_pyarray(py)
    }

    /// Return the count of each merge when it was chosen.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        view(py, lock(&self.merger).counts().to_vec())
    }

    /// Return the bytes of every token, by id.
    fn tokens(&self, py: Python<'_>) -> PyResult<Tokens> {
        let all = run_short(py, || {
            let merger = lock(&self.merger);
            let mut all = TokenTable::default();
            for id in 0..merger.tokens().len() as u32 {
                all.push(merger.tokens().get(id), id);
            }
            Ok(all)
        })?;
        Tokens::new(all)
    }
}

/// Return the opposite of [`flat`].
fn pairs_of(flat: &[u32]) -> Vec<(u32, u32)> {
    flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

fn flat(pairs: &[(u32, u32)]) -> Vec<u32> {
    pairs.iter().flat_map(|&(left, right)| [left, right]).collect()
}
