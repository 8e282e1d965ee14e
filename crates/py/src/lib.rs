//! `tokenmill._core`: the only `PyO3` in the project. Each area of the core has one file here.

mod codec;
mod decode;
mod documents;
mod error;
mod flat;
mod lists;
mod packing;
mod records;
mod scan;
mod small_files;
mod strings;
mod train;
mod vocabulary;

use pyo3::prelude::*;

// Not audited for free threading.
#[pymodule(gil_used = true)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<codec::Codec>()?;
    module.add_function(wrap_pyfunction!(codec::ids_to_lists, module)?)?;
    packing::register(module)?;
    records::register(module)?;
    scan::register(module)?;
    small_files::register(module)?;
    train::register(module)?;
    vocabulary::register(module)?;
    Ok(())
}
