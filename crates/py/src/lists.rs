//! Ids as Python ints. Making an int costs more than encoding one, so lists share one int object per id.

use std::sync::{Arc, Mutex, PoisonError};

use numpy::PyReadonlyArray1;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};

use crate::error::to_py;
use tokenmill_core::{prefetch, Error};

/// From this many ids on, shared ints pay for their table.
const WORTH_SHARING: usize = 4096;
/// How many ids ahead of the one that is put into a list an int is prefetched: some ten cache misses.
const AHEAD: usize = 16;

/// The ints from 0 up to the largest that was asked for; one table for the whole process.
///
/// It is locked by attached threads only, and no Python code runs meanwhile, so no thread ever waits for it.
static INTS: Mutex<Ints> = Mutex::new(None);

type Ints = Option<Arc<Vec<Py<PyInt>>>>;

/// Ints for all ids below `limit`; `None` if they would have to be made and `count` ids are not worth it.
fn ints(py: Python<'_>, limit: usize, count: usize) -> Ints {
    let mut known = INTS.lock().unwrap_or_else(PoisonError::into_inner);
    let has = known.as_ref().map_or(0, |ints| ints.len());
    if has < limit {
        if count < WORTH_SHARING || limit > 16 * count {
            return None;
        }
        let old = known.iter().flat_map(|ints| ints.iter());
        let old = old.map(|int| int.clone_ref(py));
        let new = (has..limit).map(|id| PyInt::new(py, id).unbind());
        *known = Some(Arc::new(old.chain(new).collect()));
    }
    known.clone()
}

/// `ids`, all of them below `limit`, as a list of ints.
pub fn to_list<'py>(py: Python<'py>, ids: &[u32], limit: usize) -> PyResult<Bound<'py, PyList>> {
    match ints(py, limit, ids.len()) {
        Some(ints) if ids.iter().all(|&id| (id as usize) < ints.len()) => {
            list_shared(py, ids, &ints)
        }
        _ => PyList::new(py, ids),
    }
}

/// Return one list of ints for each pair of neighbouring offsets.
pub fn to_lists<'py, I: Copy + Into<u32>>(
    py: Python<'py>,
    ids: &[I],
    offsets: &[i64],
) -> PyResult<Bound<'py, PyList>> {
    let limit = ids.iter().map(|&id| id.into()).max();
    let limit = limit.map_or(0, |id| id as usize + 1);
    let ints = ints(py, limit, ids.len());
    let _pause = GcPause::new();
    let lists = offsets.windows(2).map(|pair| {
        let part = ids
            .get(pair[0] as usize..pair[1] as usize)
            .ok_or_else(|| to_py(&Error::Input("offsets point outside the ids".into())))?;
        match &ints {
            Some(ints) => list_shared(py, part, ints),
            None => PyList::new(py, part.iter().map(|&id| id.into())),
        }
    });
    PyList::new(py, lists.collect::<PyResult<Vec<_>>>()?)
}

/// Pauses Python's garbage collector: it would run after every few hundred lists and look at every id in them, which
/// took as long as making them. Lists of ints are in no cycle.
struct GcPause(bool);

impl GcPause {
    fn new() -> Self {
        // SAFETY: called by an attached thread, as all of this file is.
        Self(unsafe { ffi::PyGC_Disable() } == 1)
    }
}

impl Drop for GcPause {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: as above.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Return a list of shared ints; every id has one.
fn list_shared<'py, I: Copy + Into<u32>>(
    py: Python<'py>,
    ids: &[I],
    ints: &[Py<PyInt>],
) -> PyResult<Bound<'py, PyList>> {
    let int = |id: I| -> &Py<PyInt> { &ints[id.into() as usize] };
    // SAFETY: an attached thread may make a list; null is an error that Python has set.
    let list = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyList_New(ids.len() as isize))? };
    for (at, &id) in ids.iter().enumerate() {
        if let Some(&later) = ids.get(at + AHEAD) {
            prefetch(int(later).as_ptr());
        }
        let item = int(id).clone_ref(py).into_ptr();
        // SAFETY: the list is new and not shared, `at` is within its length, and it takes the reference.
        unsafe { ffi::PyList_SetItem(list.as_ptr(), at as isize, item) };
    }
    // SAFETY: `PyList_New` gave a list.
    Ok(unsafe { list.cast_into_unchecked() })
}

/// Ids from an array of 16 or 32 bits, or from any sequence of ints.
pub fn ids_of(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if is_plain(ids) {
        return plain(ids);
    }
    if let Ok(array) = ids.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(array.as_array().to_vec());
    }
    if let Ok(array) = ids.extract::<PyReadonlyArray1<'_, u16>>() {
        return Ok(array.as_array().iter().map(|&id| u32::from(id)).collect());
    }
    if let Ok(array) = ids.extract::<PyReadonlyArray1<'_, i64>>() {
        let ids = array.as_array();
        return ids.iter().map(|&id| in_range(id)).collect();
    }
    plain(ids)
}

fn in_range(id: i64) -> PyResult<u32> {
    u32::try_from(id).map_err(|_| outside(&format!("found {id}")))
}

/// Return whether ids come as Python ints: asking for an array imports `NumPy`, which a list does not need.
pub fn is_plain(ids: &Bound<'_, PyAny>) -> bool {
    ids.is_instance_of::<PyList>() || ids.is_instance_of::<PyTuple>()
}

fn plain(ids: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    ids.extract::<Vec<u32>>().map_err(|error| outside(&error.to_string()))
}

fn outside(found: &str) -> PyErr {
    to_py(&Error::Input(format!("expected token ids from 0 to 2^32 - 1: {found}")))
}
