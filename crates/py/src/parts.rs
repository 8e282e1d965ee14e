//! One huge text in parts: where it can be cut, and the ids of a part. No part is copied.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use numpy::IntoPyArray;
use pyo3::prelude::*;
use tokenmill_core::codec::Codec as CoreCodec;
use tokenmill_core::Error;

use crate::codec::{special_from, Codec};
use crate::error::{run_short, to_py};
use crate::flat::Borrowed;

/// Adds the functions of this file to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(last_cut, module)?)?;
    module.add_function(wrap_pyfunction!(encode_part, module)?)
}

/// The last byte at which a text that begins with `data` can be cut; 0 if nowhere.
#[pyfunction]
fn last_cut(py: Python<'_>, codec: PyRef<'_, Codec>, data: Borrowed<u8>) -> PyResult<usize> {
    let (codec, data): (&CoreCodec, _) = (codec.core(), data.as_slice()?);
    run_short(py, || Ok(codec.last_cut(data).unwrap_or(0)))
}

/// The ids of the UTF-8 text `data`, as narrow as the vocabulary allows; `continued` says that it goes on
/// after a cut.
#[pyfunction]
fn encode_part<'py>(
    py: Python<'py>,
    codec: PyRef<'_, Codec>,
    data: Borrowed<u8>,
    special: &str,
    continued: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let special = special_from(special)?;
    let data = data.as_slice()?;
    let text = simdutf8::compat::from_utf8(data).map_err(|error| {
        to_py(&Error::Input(format!(
            "invalid UTF-8 at byte {}",
            error.valid_up_to()
        )))
    })?;
    let core: &CoreCodec = codec.core();
    let ids = run_short(py, || core.encode(text, special, continued))?;
    if core.bpe().vocabulary().id_limit() > 1 << 16 {
        return Ok(ids.into_pyarray(py).into_any());
    }
    let narrow: Vec<u16> = py.detach(|| ids.into_iter().map(|id| id as u16).collect());
    Ok(narrow.into_pyarray(py).into_any())
}
