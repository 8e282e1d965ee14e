//! Record readers: a borrowed block of bytes in, flat buffers out that Arrow takes without a copy.
#![allow(clippy::needless_pass_by_value)] // a buffer is released when the argument is dropped

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use tokenmill_core::jsonl::{self, Fields, State};
use tokenmill_core::records::{
    self, read_rows, split, Batch, CsvPart, CsvSpec, Policy, Reason, Strings,
};

use crate::error::run_short;
use crate::flat::{view, Borrowed};

type Texts = (Py<PyMemoryView>, Py<PyMemoryView>);
type ColumnBuffers = (Py<PyArray1<u8>>, Py<PyMemoryView>, Py<PyMemoryView>);
type Refused = (&'static str, i64, i64, Py<PyBytes>);

/// The documents of a block and what was refused.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct Records {
    #[pyo3(get)]
    texts: Texts,
    rows: Vec<i64>,
    starts: Vec<i64>,
    #[pyo3(get)]
    columns: Vec<ColumnBuffers>,
    #[pyo3(get)]
    rejects: Vec<Refused>,
    #[pyo3(get)]
    refused: Vec<(&'static str, u64)>,
    #[pyo3(get)]
    replaced: Vec<(&'static str, u64)>,
    #[pyo3(get)]
    rows_read: i64,
}

impl Records {
    fn new(py: Python<'_>, batch: Batch) -> PyResult<Self> {
        let rejects = batch.rejects.into_iter().map(|reject| {
            let sample = PyBytes::new(py, &reject.sample).unbind();
            (reject.reason.name(), reject.row, reject.byte as i64, sample)
        });
        let columns = batch.columns.into_iter().map(|column| {
            let (bytes, offsets) = strings(py, column.values)?;
            Ok((column.kinds.into_pyarray(py).unbind(), bytes, offsets))
        });
        Ok(Records {
            texts: strings(py, batch.texts)?,
            rows: batch.rows,
            starts: batch.starts,
            columns: columns.collect::<PyResult<_>>()?,
            rejects: rejects.collect(),
            refused: by_name(&batch.refused),
            replaced: by_name(&batch.replaced),
            rows_read: batch.rows_read,
        })
    }
}

#[pymethods]
impl Records {
    /// Record number of each document, that of the block's first record being `first`.
    fn rows<'py>(&self, py: Python<'py>, first: i64) -> PyResult<Bound<'py, PyMemoryView>> {
        view(py, self.rows.iter().map(|row| row + first).collect())
    }

    /// Offset in the block at which each document's record starts.
    #[getter]
    fn starts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        view(py, self.starts.clone())
    }
}

fn strings(py: Python<'_>, strings: Strings) -> PyResult<Texts> {
    let bytes = view(py, strings.bytes)?.unbind();
    Ok((bytes, view(py, strings.offsets)?.unbind()))
}

fn by_name(counts: &[u64]) -> Vec<(&'static str, u64)> {
    let named = Reason::ALL.iter().zip(counts);
    named.filter(|(_, &count)| count > 0).map(|(reason, &count)| (reason.name(), count)).collect()
}

fn policy(replace: bool) -> Policy {
    if replace {
        Policy::Replace
    } else {
        Policy::Refuse
    }
}

/// Reads JSON Lines into texts and columns. A text is made of parts: a `str` stands for itself, a
/// list of keys for the string that they lead to.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct JsonlReader {
    fields: Fields,
}

#[derive(FromPyObject)]
enum TemplatePart {
    Literal(String),
    Field(Vec<String>),
}

#[pymethods]
impl JsonlReader {
    #[new]
    #[pyo3(signature = (text, columns, *, limit, replace))]
    fn new(
        text: Vec<TemplatePart>,
        columns: Vec<Vec<String>>,
        limit: usize,
        replace: bool,
    ) -> Self {
        let parts = text.into_iter().map(|part| match part {
            TemplatePart::Literal(literal) => Ok(literal),
            TemplatePart::Field(path) => Err(path),
        });
        JsonlReader { fields: Fields::new(parts.collect(), columns, policy(replace), limit) }
    }

    /// Reads a block of whole lines; the last line needs no newline.
    #[pyo3(signature = (block, /))]
    fn read(&self, py: Python<'_>, block: Borrowed<u8>) -> PyResult<Records> {
        let bytes = block.as_slice()?;
        let batch = run_short(py, || Ok(jsonl::read(bytes, &self.fields)))?;
        Records::new(py, batch)
    }

    /// Reads the whole elements of a part of one JSON value. `state` is 0 at its start, then what the
    /// previous call returned; returns the records, the bytes used, the next state (4 is after the
    /// value) and whether the value is broken there.
    #[pyo3(signature = (block, state, /, *, last))]
    fn read_elements(
        &self,
        py: Python<'_>,
        block: Borrowed<u8>,
        state: usize,
        last: bool,
    ) -> PyResult<(Records, usize, usize, bool)> {
        let bytes = block.as_slice()?;
        let Some(&state) = State::ALL.get(state) else {
            return Err(PyValueError::new_err(
                "state must be 0 or one that an earlier call returned",
            ));
        };
        let found = run_short(py, || Ok(jsonl::read_elements(bytes, &self.fields, state, last)))?;
        let records = Records::new(py, found.batch)?;
        Ok((records, found.used, found.state as usize, found.broken))
    }
}

/// Return the names of the object that `head` begins with, each with the first character of its value, and whether the
/// object is whole.
#[pyfunction]
#[pyo3(signature = (head, /))]
fn json_members(head: &[u8]) -> (Vec<(String, char)>, bool) {
    let (found, whole) = jsonl::members(head);
    let named = found.into_iter();
    (named.map(|(name, first)| (name, first.into())).collect(), whole)
}

/// Reads delimited rows. A text is made of parts: a `str` stands for itself, an `int` for the field
/// with that number.
#[pyclass(frozen, module = "tokenmill._core")]
pub struct CsvReader {
    spec: CsvSpec,
}

#[derive(FromPyObject)]
enum RowPart {
    Literal(String),
    Field(usize),
}

#[pymethods]
impl CsvReader {
    #[new]
    #[pyo3(signature = (text, columns, *, delimiter, width, limit, replace))]
    fn new(
        text: Vec<RowPart>,
        columns: Vec<usize>,
        delimiter: u8,
        width: usize,
        limit: usize,
        replace: bool,
    ) -> PyResult<Self> {
        let fields = text.iter().filter_map(|part| match part {
            RowPart::Literal(_) => None,
            RowPart::Field(number) => Some(number),
        });
        if fields.chain(&columns).any(|&number| number >= width) {
            return Err(PyValueError::new_err("a field number is beyond the last field"));
        }
        let parts = text.into_iter().map(|part| match part {
            RowPart::Literal(literal) => CsvPart::Literal(literal.into_bytes()),
            RowPart::Field(number) => CsvPart::Field(number),
        });
        Ok(CsvReader {
            spec: CsvSpec {
                delimiter,
                width,
                text: parts.collect(),
                columns,
                limit,
                policy: policy(replace),
            },
        })
    }

    /// Reads the whole rows of a block; returns them and the bytes that they took.
    #[pyo3(signature = (block, /, *, last))]
    fn read(&self, py: Python<'_>, block: Borrowed<u8>, last: bool) -> PyResult<(Records, usize)> {
        let bytes = block.as_slice()?;
        let (batch, used) = run_short(py, || Ok(read_rows(bytes, &self.spec, last)))?;
        Ok((Records::new(py, batch)?, used))
    }
}

/// Splits a block of whole documents at each `separator`; an empty one keeps the block whole.
#[pyfunction]
#[pyo3(signature = (block, separator, *, strip_cr, limit, replace))]
fn split_text(
    py: Python<'_>,
    block: Borrowed<u8>,
    separator: &[u8],
    strip_cr: bool,
    limit: usize,
    replace: bool,
) -> PyResult<Records> {
    let bytes = block.as_slice()?;
    let batch = run_short(py, || Ok(split(bytes, separator, strip_cr, limit, policy(replace))))?;
    Records::new(py, batch)
}

/// Rows of a large string array that are not UTF-8, as `(row, offset of the fault)`.
#[pyfunction]
#[pyo3(signature = (data, offsets, /))]
fn invalid_rows(
    py: Python<'_>,
    data: Borrowed<u8>,
    offsets: Borrowed<i64>,
) -> PyResult<Vec<(usize, usize)>> {
    let bytes = data.as_slice()?;
    let offsets = offsets.as_slice()?;
    run_short(py, || Ok(records::invalid_rows(bytes, offsets)))
}

/// Adds this area to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Records>()?;
    module.add_class::<JsonlReader>()?;
    module.add_class::<CsvReader>()?;
    module.add_function(wrap_pyfunction!(json_members, module)?)?;
    module.add_function(wrap_pyfunction!(split_text, module)?)?;
    module.add_function(wrap_pyfunction!(invalid_rows, module)?)
}
