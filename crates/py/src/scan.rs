//! The families of patterns, and the scan by itself: for looking at pieces, and for tests that compare it with
//! other engines. Pre-tokenizers cross as the JSON of a `tokenizer.json`.

use std::ffi::CString;

use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use tokenmill_core::cpu::Cpu;
use tokenmill_core::recipe::{plain_spec, pre_tokenizer_json, scan_spec};
use tokenmill_core::scan::{self, Path, ScanSpec, Scanner};

use crate::error::{run_short, to_py};

/// A pattern that has a block scanner.
#[pyclass(frozen, module = "tokenmill._core")]
struct Family {
    /// Its name.
    #[pyo3(get)]
    name: &'static str,
    /// Models with the very same pattern; each name is accepted as well.
    #[pyo3(get)]
    aliases: Vec<&'static str>,
    /// The one regex whose matches are the pieces; None where it takes several steps.
    #[pyo3(get)]
    regex: Option<String>,
    /// Its pre-tokenizer in a `tokenizer.json`.
    #[pyo3(get)]
    pre_tokenizer: String,
}

/// Every family.
#[pyfunction]
fn families() -> Vec<Family> {
    let rows = scan::FAMILIES.iter().map(|row| {
        let spec = ScanSpec::Known(row.known);
        Family {
            name: row.name,
            aliases: row.aliases.to_vec(),
            regex: spec.regex(),
            pre_tokenizer: pre_tokenizer_json(&spec),
        }
    });
    rows.collect()
}

/// The pre-tokenizer of a family's name or of a regex in tiktoken's dialect, for a byte-level model.
#[pyfunction]
fn pre_tokenizer(pattern: &str) -> PyResult<String> {
    let spec = ScanSpec::from_choice(pattern).map_err(|error| to_py(&error))?;
    Ok(pre_tokenizer_json(&spec))
}

/// The pre-tokenizer of a regex from a file, even if it looks like a family's name.
#[pyfunction]
fn regex_pre_tokenizer(regex: &str) -> String {
    pre_tokenizer_json(&ScanSpec::from_regex(regex))
}

/// The one regex whose matches are the pieces of a pre-tokenizer; None where there is none.
#[pyfunction]
fn regex_of(pre_tokenizer: &str) -> Option<String> {
    plain_spec(pre_tokenizer)?.regex()
}

/// The pattern from which `pre_tokenizer` makes this one, a family's name or a regex; None if there is none.
#[pyfunction]
fn pattern_of(pre_tokenizer: &str) -> Option<String> {
    plain_spec(pre_tokenizer)?.choice()
}

/// The pieces of a text; through the regex engine if `general`.
#[pyfunction]
#[pyo3(signature = (pre_tokenizer, text, *, general=false))]
fn scan_pieces(
    py: Python<'_>,
    pre_tokenizer: &str,
    text: &str,
    general: bool,
) -> PyResult<Vec<String>> {
    run_short(py, || {
        let spec = scan_spec(pre_tokenizer)?;
        let path = if general { Path::Regex } else { Path::Blocks(Cpu::get()) };
        let mut pieces = Vec::new();
        Scanner::with_path(&spec, path)?.for_each_piece(text, |piece| {
            pieces.push(String::from_utf8_lossy(piece).into_owned());
        })?;
        Ok(pieces)
    })
}

/// The family of a pre-tokenizer, or `"chain"`.
#[pyfunction]
fn scan_family(py: Python<'_>, pre_tokenizer: &str) -> PyResult<&'static str> {
    run_short(py, || Ok(scan_spec(pre_tokenizer)?.name()))
}

/// The name of the set of instructions in use, and the features that it is made of.
#[pyfunction]
fn cpu() -> (&'static str, &'static [&'static str]) {
    let cpu = Cpu::get();
    (cpu.name(), cpu.features())
}

/// Warns in Python if `TOKENMILL_CPU` names something that is not available.
fn warn_of_refusal(py: Python<'_>) -> PyResult<()> {
    let Some(refusal) = Cpu::refusal().and_then(|message| CString::new(message).ok()) else {
        return Ok(());
    };
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &refusal, 1)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    warn_of_refusal(module.py())?;
    module.add_function(wrap_pyfunction!(cpu, module)?)?;
    module.add_class::<Family>()?;
    module.add_function(wrap_pyfunction!(families, module)?)?;
    module.add_function(wrap_pyfunction!(pre_tokenizer, module)?)?;
    module.add_function(wrap_pyfunction!(regex_pre_tokenizer, module)?)?;
    module.add_function(wrap_pyfunction!(regex_of, module)?)?;
    module.add_function(wrap_pyfunction!(pattern_of, module)?)?;
    module.add_function(wrap_pyfunction!(scan_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(scan_family, module)?)
}
