//! `tokenmill._core`: the only `PyO3` in the project. Each area of the core has one file here.

#[allow(dead_code)]
mod error;
mod packing;
mod records;
mod train;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    packing::register(module)?;
    records::register(module)?;
    train::register(module)?;
    Ok(())
}
