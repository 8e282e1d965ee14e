//! How a caller asks a long loop to end: one flag, checked between documents or blocks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Shared by a long call and whoever may interrupt it.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// A flag that nobody has raised yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Asks the work to end at its next check.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is raised; one relaxed load, cheap enough for every document.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns `Err(Interrupted)` once the flag is raised.
    pub fn check(&self) -> Result<()> {
        if self.is_raised() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }
}
