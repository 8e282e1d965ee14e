//! The one mapping from core errors to Python exceptions, and the one door that releases the GIL.

use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use tokenmill_core::Error;

/// Maps a core error to the Python exception that an ordinary `except` expects. The Python side
/// (`tokenmill.errors`) gives it file and line where it knows them.
pub fn to_py(error: Error) -> PyErr {
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        other => PyValueError::new_err(other.to_string()),
    }
}
