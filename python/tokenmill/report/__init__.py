"""The report of a finished run."""
