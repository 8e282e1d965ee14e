//! Ids back to bytes and texts: arrays are borrowed, and bytes are written straight into the Python object.

use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tokenmill_core::bpe::Bpe;
use tokenmill_core::{Error, Result};

use crate::error::{catch_panic, run_short, to_py};
use crate::lists;

/// Below this many ids, releasing the GIL costs more than the work.
const WORTH_DETACHING: usize = 4096;

/// Ids as the caller has them.
pub enum IdArray<'py> {
    /// 32 bits each.
    Wide(PyReadonlyArray1<'py, u32>),
    /// 16 bits each.
    Narrow(PyReadonlyArray1<'py, u16>),
    /// Copied from something else.
    Owned(Vec<u32>),
}

impl<'py> IdArray<'py> {
    /// Borrows a contiguous array of 16 or 32 bits, and copies anything else.
    pub fn new(ids: &Bound<'py, PyAny>) -> PyResult<Self> {
        if !lists::is_plain(ids) {
            if let Ok(array) = ids.extract::<PyReadonlyArray1<'py, u32>>() {
                if array.is_contiguous() {
                    return Ok(Self::Wide(array));
                }
            } else if let Ok(array) = ids.extract::<PyReadonlyArray1<'py, u16>>() {
                if array.is_contiguous() {
                    return Ok(Self::Narrow(array));
                }
            }
        }
        Ok(Self::Owned(lists::ids_of(ids)?))
    }
}

/// Return the bytes that the ids stand for, one after the other.
pub fn bytes<'py>(
    py: Python<'py>,
    bpe: &Bpe,
    ids: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    match IdArray::new(ids)? {
        IdArray::Wide(ids) => decode_joined(py, bpe, ids.as_slice()?),
        IdArray::Narrow(ids) => decode_joined(py, bpe, ids.as_slice()?),
        IdArray::Owned(ids) => decode_joined(py, bpe, &ids),
    }
}

fn decode_joined<'py, I: Copy + Into<u32> + Sync>(
    py: Python<'py>,
    bpe: &Bpe,
    ids: &[I],
) -> PyResult<Bound<'py, PyBytes>> {
    let detach = ids.len() >= WORTH_DETACHING;
    let length = run(py, detach, || bpe.decoded_len(ids))?;
    PyBytes::new_with(py, length, |room| run(py, detach, || bpe.decode_to(ids, room)))
}

/// Runs `work`, without the GIL if `detach`.
fn run<T: Send>(
    py: Python<'_>,
    detach: bool,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    if detach {
        return run_short(py, work);
    }
    catch_panic(work).map_err(|error| to_py(&error))
}

/// Return one text for each pair of neighbouring offsets; `errors` is that of `bytes.decode`.
pub fn texts<'py>(
    py: Python<'py>,
    bpe: &Bpe,
    ids: &Bound<'py, PyAny>,
    offsets: &[i64],
    errors: &str,
) -> PyResult<Bound<'py, PyList>> {
    match IdArray::new(ids)? {
        IdArray::Wide(ids) => decode_each(py, bpe, ids.as_slice()?, offsets, errors),
        IdArray::Narrow(ids) => decode_each(py, bpe, ids.as_slice()?, offsets, errors),
        IdArray::Owned(ids) => decode_each(py, bpe, &ids, offsets, errors),
    }
}

fn decode_each<'py, I: Copy + Into<u32>>(
    py: Python<'py>,
    bpe: &Bpe,
    ids: &[I],
    offsets: &[i64],
    errors: &str,
) -> PyResult<Bound<'py, PyList>> {
    let texts = PyList::empty(py);
    let mut room = Vec::new();
    for pair in offsets.windows(2) {
        let part = ids
            .get(pair[0] as usize..pair[1] as usize)
            .ok_or_else(|| to_py(&Error::Input("offsets point outside the ids".into())))?;
        let decoded = bpe.decoded_len(part).and_then(|length| {
            room.resize(length, 0);
            bpe.decode_to(part, &mut room)
        });
        decoded.map_err(|error| to_py(&error))?;
        // Python looks at every byte anyway to choose the width of the string, so it also finds what is not UTF-8.
        if let Ok(text) = PyString::from_bytes(py, &room) {
            texts.append(text)?;
        } else {
            let bytes = PyBytes::new(py, &room);
            texts.append(bytes.call_method1("decode", ("utf-8", errors))?)?;
        }
        py.check_signals()?;
    }
    Ok(texts)
}
