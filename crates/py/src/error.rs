//! Maps core errors to Python exceptions, and runs work without the GIL.
//!
//! A call that may take long goes through [`run_long`]: the work runs on a thread of its own while
//! the calling thread, the only one that Python lets handle signals, waits and looks for Ctrl-C.
//! A call that is surely short goes through [`run_short`], which needs no thread.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use tokenmill_core::{Error, Result, Stop};

/// How often the waiting thread looks for Ctrl-C.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

/// Returns the name of the class in `tokenmill.errors` for this error.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::InvalidUtf8 { .. } | Error::Input(_) => "InputError",
        Error::Internal(_) => "InternalError",
        Error::UnknownFamily { .. } => "ConfigError",
        Error::Unsupported(_) => "UnsupportedError",
        Error::Disk(_) => "InterruptedJobError",
        _ => "TokenizerError",
    }
}

/// Maps a core error to its Python exception. The Python side adds file and line.
pub fn to_py(error: &Error) -> PyErr {
    if matches!(error, Error::Interrupted) {
        return PyKeyboardInterrupt::new_err(());
    }
    let message = error.to_string();
    if matches!(error, Error::Thread(_)) {
        return PyMemoryError::new_err(message);
    }
    Python::attach(|py| {
        let class =
            py.import("tokenmill.errors").and_then(|errors| errors.getattr(class_of(error)));
        match class.and_then(|class| class.call1((message.as_str(),))) {
            Ok(value) => PyErr::from_value(value),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// Runs `work` without the GIL, on a thread of its own, and raises its `Stop` when a signal handler
/// raises (Ctrl-C): the work must call `stop.check()?` every few milliseconds. A panic becomes
/// `tokenmill.errors.InternalError`. Called from a thread that gets no signals, it runs the work there.
pub fn run_long<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> Result<T> + Send,
) -> PyResult<T> {
    if !handles_signals(py) {
        return py.detach(|| catch_panic(|| work(&Stop::new()))).map_err(|error| to_py(&error));
    }
    let stop = Stop::new();
    let mut signal: Option<PyErr> = None;
    let outcome = py.detach(|| {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            let stop = &stop;
            let worker = std::thread::Builder::new().spawn_scoped(scope, move || {
                // The receiver outlives this thread, so the send cannot fail.
                let _ = sender.send(catch_panic(|| work(stop)));
            });
            worker.map_err(Error::Thread)?;
            loop {
                match receiver.recv_timeout(SIGNAL_PERIOD) {
                    Ok(outcome) => return outcome,
                    Err(RecvTimeoutError::Disconnected) => {
                        let message = "the worker thread ended without a result";
                        return Err(Error::Internal(message.into()));
                    }
                    Err(RecvTimeoutError::Timeout) if signal.is_none() => {
                        signal = pending_signal();
                        if signal.is_some() {
                            stop.raise();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    match signal {
        Some(raised) => Err(raised),
        None => outcome.map_err(|error| to_py(&error)),
    }
}

/// Returns whether this is Python's main thread, the only one that handles signals; `true` if unknown.
fn handles_signals(py: Python<'_>) -> bool {
    let ask = || -> PyResult<bool> {
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        threading.call_method0("get_ident")?.eq(main)
    };
    ask().unwrap_or(true)
}

/// Returns the exception that a signal handler has raised since the last call.
#[allow(clippy::redundant_closure_for_method_calls)] // the method alone is not general enough over 'py
fn pending_signal() -> Option<PyErr> {
    Python::attach(|py| py.check_signals()).err()
}

/// Runs `work` without the GIL on the calling thread: for calls of a few milliseconds at most.
pub fn run_short<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| catch_panic(work)).map_err(|error| to_py(&error))
}

/// Turns a panic in the core into an error, so that it never crosses the boundary.
pub fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(Error::Internal(format!(
            "{}; this is a bug in tokenmill: please report it with the input that caused it",
            message_of(&*panic)
        )))
    })
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
