//! Flat `(ids, offsets)` in, flat arrays out: framing, copying segments, best-fit packing, hashing texts.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use numpy::{Element, IntoPyArray, PyArray1, PyReadwriteArray1};
use pyo3::buffer::Element as Item;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use tokenmill_core::Result;
use tokenmill_core::{packing, writeback};

use crate::error::{run_long, run_short, to_py};
use crate::flat::Borrowed;

type Int64s<'py> = Bound<'py, PyArray1<i64>>;
type Flat<'py, T> = (Bound<'py, PyArray1<T>>, Int64s<'py>);

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(frame_documents, module)?)?;
    module.add_function(wrap_pyfunction!(copy_segments, module)?)?;
    module.add_function(wrap_pyfunction!(copy_rows, module)?)?;
    module.add_function(wrap_pyfunction!(fill_runs, module)?)?;
    module.add_function(wrap_pyfunction!(best_fit, module)?)?;
    module.add_function(wrap_pyfunction!(deal_turns, module)?)?;
    module.add_function(wrap_pyfunction!(blank_texts, module)?)?;
    module.add_function(wrap_pyfunction!(has_blank, module)?)?;
    module.add_function(wrap_pyfunction!(begin_writeback, module)?)?;
    module.add_class::<StringCounter>()?;
    module.add_function(wrap_pyfunction!(hash_texts, module)?)
}

fn frame_as<'py, I, O>(
    py: Python<'py>,
    ids: &Borrowed<I>,
    offsets: &Borrowed<i64>,
    bos: Option<u32>,
    eos: Option<u32>,
) -> PyResult<Flat<'py, O>>
where
    I: Item + Copy + Into<u32> + Sync,
    O: Element + Copy + TryFrom<u32> + Send,
{
    let (ids, offsets) = (ids.as_slice()?, offsets.as_slice()?);
    let narrow = |id: Option<u32>| {
        id.map(|id| {
            O::try_from(id).map_err(|_| {
                tokenmill_core::Error::Input(format!(
                    "token id {id} does not fit in 16 bits: write uint32 instead"
                ))
            })
        })
        .transpose()
    };
    let (ids, offsets) = run_short(py, || -> Result<(Vec<O>, Vec<i64>)> {
        packing::frame(ids, offsets, narrow(bos)?, narrow(eos)?)
    })?;
    Ok((ids.into_pyarray(py), offsets.into_pyarray(py)))
}

/// Documents with BOS and EOS around them, as the type that is stored.
#[pyfunction]
#[pyo3(signature = (ids, offsets, bos, eos, wide))]
fn frame_documents<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    offsets: Borrowed<i64>,
    bos: Option<u32>,
    eos: Option<u32>,
    wide: bool,
) -> PyResult<(Bound<'py, PyAny>, Int64s<'py>)> {
    if let Ok(ids) = ids.extract::<Borrowed<u16>>() {
        return if wide {
            frame_as::<u16, u32>(py, &ids, &offsets, bos, eos).map(erase)
        } else {
            frame_as::<u16, u16>(py, &ids, &offsets, bos, eos).map(erase)
        };
    }
    let Ok(ids) = ids.extract::<Borrowed<u32>>() else {
        return Err(PyTypeError::new_err("ids must be a flat uint16 or uint32 array"));
    };
    if wide {
        frame_as::<u32, u32>(py, &ids, &offsets, bos, eos).map(erase)
    } else {
        frame_as::<u32, u16>(py, &ids, &offsets, bos, eos).map(erase)
    }
}

fn erase<T: Element>((ids, offsets): Flat<'_, T>) -> (Bound<'_, PyAny>, Bound<'_, PyArray1<i64>>) {
    (ids.into_any(), offsets)
}

fn copy_as<'py, T: Element + Item + Sync + Send>(
    py: Python<'py>,
    ids: &Borrowed<T>,
    places: [&[i64]; 3],
    mut out: PyReadwriteArray1<'py, T>,
) -> PyResult<()> {
    let (ids, out) = (ids.as_slice()?, out.as_slice_mut()?);
    let [from, to, length] = places;
    run_short(py, || packing::copy_segments(ids, from, to, length, out))
}

/// Copies `ids[from:from + length]` to `out[to:to + length]` for every segment.
#[pyfunction]
fn copy_segments<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    from_: Borrowed<i64>,
    to: Borrowed<i64>,
    length: Borrowed<i64>,
    out: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let places = [from_.as_slice()?, to.as_slice()?, length.as_slice()?];
    if let Ok(ids) = ids.extract::<Borrowed<u16>>() {
        return copy_as(py, &ids, places, out.extract()?);
    }
    if let Ok(bytes) = ids.extract::<Borrowed<u8>>() {
        return copy_as(py, &bytes, places, out.extract()?);
    }
    copy_as(py, &ids.extract::<Borrowed<u32>>()?, places, out.extract()?)
}

fn rows_as<'py, T: Element + Item + Sync + Send>(
    py: Python<'py>,
    ids: &Borrowed<T>,
    view: &packing::Rows,
    [rows, to]: [&[i64]; 2],
    pad: T,
    mut out: PyReadwriteArray1<'py, T>,
) -> PyResult<()> {
    let (ids, out) = (ids.as_slice()?, out.as_slice_mut()?);
    run_short(py, || packing::copy_rows(ids, view, rows, to, pad, out))
}

/// Fills `out` with rows of a shard by the index of a view, and with `pad` where they have no tokens.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn copy_rows<'py>(
    py: Python<'py>,
    ids: &Bound<'py, PyAny>,
    bounds: Borrowed<i64>,
    parts: Borrowed<u8>,
    rows: Vec<i64>,
    to: Vec<i64>,
    length: usize,
    multiple: usize,
    pad: u32,
    out: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let view = packing::Rows {
        bounds: bounds.as_slice()?,
        parts: parts.as_slice()?,
        length,
        multiple: multiple.max(1),
    };
    let places = [&rows[..], &to[..]];
    if let Ok(ids) = ids.extract::<Borrowed<u16>>() {
        return rows_as(py, &ids, &view, places, pad as u16, out.extract()?);
    }
    if let Ok(ids) = ids.extract::<Borrowed<u32>>() {
        return rows_as(py, &ids, &view, places, pad, out.extract()?);
    }
    if let Ok(bytes) = ids.extract::<Borrowed<u8>>() {
        return rows_as(py, &bytes, &view, places, pad as u8, out.extract()?);
    }
    let wide = ids.extract::<Borrowed<u64>>()?;
    rows_as(py, &wide, &view, places, u64::from(pad), out.extract()?)
}

fn fill_as<'py, T: Element + packing::Cell + Send>(
    py: Python<'py>,
    firsts: &[i64],
    step: i64,
    [to, length]: [&[i64]; 2],
    mut out: PyReadwriteArray1<'py, T>,
) -> PyResult<()> {
    let out = out.as_slice_mut()?;
    run_short(py, || packing::fill_runs(firsts, step, to, length, out))
}

/// Writes `firsts, firsts + step, …` to `out[to:to + length]` for every run.
#[pyfunction]
fn fill_runs<'py>(
    py: Python<'py>,
    firsts: Borrowed<i64>,
    step: i64,
    to: Borrowed<i64>,
    length: Borrowed<i64>,
    out: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let (firsts, places) = (firsts.as_slice()?, [to.as_slice()?, length.as_slice()?]);
    if let Ok(out) = out.extract::<PyReadwriteArray1<'py, i8>>() {
        return fill_as(py, firsts, step, places, out);
    }
    if let Ok(out) = out.extract::<PyReadwriteArray1<'py, i32>>() {
        return fill_as(py, firsts, step, places, out);
    }
    fill_as(py, firsts, step, places, out.extract::<PyReadwriteArray1<'py, i64>>()?)
}

/// Return the bin of every item and its place in it, best fit, longest first; a bin takes `most` items.
#[pyfunction]
#[pyo3(signature = (lengths, capacity, most=None))]
fn best_fit(
    py: Python<'_>,
    lengths: Borrowed<i64>,
    capacity: i64,
    most: Option<u64>,
) -> PyResult<(Int64s<'_>, Int64s<'_>)> {
    let (lengths, most) = (lengths.as_slice()?, most.unwrap_or(u64::MAX));
    let (bins, places) = run_short(py, || packing::best_fit(lengths, capacity, most))?;
    Ok((bins.into_pyarray(py), places.into_pyarray(py)))
}

/// Returns the source of each row of a period, in which each source has so many turns.
#[pyfunction]
fn deal_turns(py: Python<'_>, turns: Vec<u32>) -> PyResult<Bound<'_, PyArray1<u16>>> {
    let order = run_long(py, |stop| packing::deal_turns(&turns, stop))?;
    Ok(order.into_pyarray(py))
}

/// Return whether each text is empty or all white space, as one byte each.
#[pyfunction]
fn blank_texts(
    py: Python<'_>,
    data: Borrowed<u8>,
    offsets: Borrowed<i64>,
) -> PyResult<Bound<'_, PyArray1<bool>>> {
    let (data, offsets) = (data.as_slice()?, offsets.as_slice()?);
    let blank = run_short(py, || packing::blank_texts(data, offsets))?;
    Ok(blank.into_pyarray(py))
}

/// Return whether any text is empty or all white space.
#[pyfunction]
fn has_blank(py: Python<'_>, data: Borrowed<u8>, offsets: Borrowed<i64>) -> PyResult<bool> {
    let (data, offsets) = (data.as_slice()?, offsets.as_slice()?);
    run_short(py, || Ok(packing::blank_texts(data, offsets)?.contains(&true)))
}

/// Asks the system to begin writing a part of an open file to the disk; does not wait for it.
#[pyfunction]
fn begin_writeback(py: Python<'_>, file: i32, start: u64, length: u64) {
    py.detach(|| writeback::begin(file, start, length));
}

/// XXH3-128 of every text, as (low, high) pairs in one flat array.
#[pyfunction]
fn hash_texts(
    py: Python<'_>,
    data: Borrowed<u8>,
    offsets: Borrowed<i64>,
) -> PyResult<Bound<'_, PyArray1<u64>>> {
    let (data, offsets) = (data.as_slice()?, offsets.as_slice()?);
    let hashes = run_long(py, |stop| packing::hash_texts(data, offsets, stop))?;
    Ok(hashes.into_pyarray(py))
}

/// Counts the occurrences of fixed strings in texts.
// Boxed: Python aligns objects to 16 bytes, and the automaton may hold wider vectors.
#[pyclass(frozen, module = "tokenmill._core")]
struct StringCounter(Box<packing::StringCounter>);

#[pymethods]
impl StringCounter {
    #[new]
    fn new(strings: Vec<String>) -> PyResult<Self> {
        let made = packing::StringCounter::new(&strings).map_err(|error| to_py(&error))?;
        Ok(Self(Box::new(made)))
    }

    /// Return the occurrences in all texts, none across two texts.
    fn count(&self, py: Python<'_>, data: Borrowed<u8>, offsets: Borrowed<i64>) -> PyResult<u64> {
        let (data, offsets) = (data.as_slice()?, offsets.as_slice()?);
        run_long(py, |stop| self.0.count(data, offsets, stop))
    }
}
