//! Many small files in one call.
#![allow(clippy::needless_pass_by_value)] // PyO3 extracts its arguments by value

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use tokenmill_core::small_files;

use crate::error::run_short;
use crate::flat::view;

type Views = (Py<PyMemoryView>, Py<PyMemoryView>, Py<PyMemoryView>);

/// Up to `most` bytes of each file, flat; where each begins; size, mtime and inode of each, or -1 three times if it
/// must be read on its own.
#[pyfunction]
fn read_small(py: Python<'_>, paths: Vec<PathBuf>, most: usize) -> PyResult<Views> {
    let found = run_short(py, || Ok(small_files::read_small(&paths, most)))?;
    Ok((
        view(py, found.data)?.unbind(),
        view(py, found.offsets)?.unbind(),
        view(py, found.stats)?.unbind(),
    ))
}

/// Adds this area to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_small, module)?)
}
