//! A flag that stops a long loop; it is checked between documents or blocks.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Shared by a long call and the thread that may interrupt it.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Returns a flag that is not raised.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Stops the work at its next check.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag is raised, with one relaxed load.
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
