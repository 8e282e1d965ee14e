//! The scan by itself: for looking at pieces, and for tests that hold it against other engines.

use std::ffi::CString;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use tokenmill_core::cpu::Cpu;
use tokenmill_core::scan::{ScanSpec, Scanner};

use crate::codec_spec::{steps_from, StepParts};
use crate::error::brief;

/// What to scan for, as Python says it.
#[derive(FromPyObject)]
enum Spec {
    /// A family's name, or else a pattern whose matches are the pieces.
    Text(String),
    /// Hugging Face's steps: `(kind, pattern, behavior, flag)`.
    Steps(Vec<StepParts>),
}

/// The pieces of a text; through the regex engine if `general`.
#[pyfunction]
#[pyo3(signature = (spec, text, *, general=false))]
fn scan_pieces(py: Python<'_>, spec: Spec, text: &str, general: bool) -> PyResult<Vec<String>> {
    brief(py, || {
        let mut spec = match spec {
            Spec::Text(text) => {
                ScanSpec::named(&text).unwrap_or_else(|| ScanSpec::from_pattern(&text))
            }
            Spec::Steps(steps) => ScanSpec::from_steps(steps_from(&steps)?),
        };
        if general {
            spec = ScanSpec::Chain(spec.steps());
        }
        let mut pieces = Vec::new();
        Scanner::new(&spec)?.for_each_piece(text, |piece| {
            pieces.push(String::from_utf8_lossy(piece).into_owned());
        })?;
        Ok(pieces)
    })
}

/// The name of the hand-written scanner that a pattern gets, or `"chain"`.
#[pyfunction]
fn scan_family(py: Python<'_>, spec: Spec) -> PyResult<&'static str> {
    brief(py, || match spec {
        Spec::Text(text) => Ok(ScanSpec::from_pattern(&text).name()),
        Spec::Steps(steps) => Ok(ScanSpec::from_steps(steps_from(&steps)?).name()),
    })
}

/// The name of the set of instructions in use, and the features that it is made of.
#[pyfunction]
fn cpu() -> (&'static str, &'static [&'static str]) {
    let cpu = Cpu::get();
    (cpu.name(), cpu.features())
}

/// Says in Python that `TOKENMILL_CPU` names something that cannot be had.
fn warn_of_refusal(py: Python<'_>) -> PyResult<()> {
    let Some(refusal) = Cpu::refusal().and_then(|told| CString::new(told).ok()) else {
        return Ok(());
    };
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &refusal, 1)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    warn_of_refusal(module.py())?;
    module.add_function(wrap_pyfunction!(cpu, module)?)?;
    module.add_function(wrap_pyfunction!(scan_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(scan_family, module)?)
}
