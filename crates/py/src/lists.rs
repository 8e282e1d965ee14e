//! Ids as Python ints. Making an int costs more than encoding one, so lists share one int per id.

use std::sync::OnceLock;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};

use crate::error::to_py;
use tokenmill_core::Error;

/// From this many ids on, shared ints pay for their table.
const WORTH_SHARING: usize = 4096;

/// One int object for each id, made when a long list is first asked for.
#[derive(Default)]
pub struct Shared(OnceLock<Vec<Py<PyInt>>>);

impl Shared {
    /// `ids` as a list of ints.
    pub fn list<'py>(
        &self,
        py: Python<'py>,
        ids: &[u32],
        limit: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        if ids.len() < WORTH_SHARING && self.0.get().is_none() {
            return PyList::new(py, ids);
        }
        let table = self.0.get_or_init(|| ints(py, limit));
        if ids.iter().any(|&id| id as usize >= table.len()) {
            return PyList::new(py, ids);
        }
        PyList::new(py, ids.iter().map(|&id| &table[id as usize]))
    }
}

fn ints(py: Python<'_>, limit: usize) -> Vec<Py<PyInt>> {
    (0..limit).map(|id| PyInt::new(py, id).unbind()).collect()
}

/// One list of ints for each pair of neighbouring offsets.
pub fn nested<'py>(py: Python<'py>, ids: &[u32], offsets: &[i64]) -> PyResult<Bound<'py, PyList>> {
    let limit = ids.iter().max().map_or(0, |&id| id as usize + 1);
    let shared = (ids.len() >= WORTH_SHARING && limit <= 4 * ids.len()).then(|| ints(py, limit));
    let lists = PyList::empty(py);
    for pair in offsets.windows(2) {
        let part = ids
            .get(pair[0] as usize..pair[1] as usize)
            .ok_or_else(|| to_py(&Error::Input("offsets point outside the ids".into())))?;
        lists.append(match &shared {
            Some(table) => PyList::new(py, part.iter().map(|&id| &table[id as usize]))?,
            None => PyList::new(py, part)?,
        })?;
    }
    Ok(lists)
}

/// Ids from an array of 16 or 32 bits, or from any sequence of ints.
pub fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    // Asking for an array imports NumPy, which a list has no need of.
    let is_list = ids.is_instance_of::<PyList>() || ids.is_instance_of::<PyTuple>();
    if is_list {
        return plain(ids);
    }
    if let Ok(array) = ids.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(array.as_array().to_vec());
    }
    if let Ok(array) = ids.extract::<PyReadonlyArray1<'_, u16>>() {
        return Ok(array.as_array().iter().map(|&id| u32::from(id)).collect());
    }
    plain(ids)
}

fn plain(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    ids.extract::<Vec<u32>>().map_err(|error| {
        to_py(&Error::Input(format!(
            "expected token ids from 0 to 2^32 - 1: {error}"
        )))
    })
}
