"""Whole jobs: prepare, stream, train, extend, convert, remove, transcode and verify."""
