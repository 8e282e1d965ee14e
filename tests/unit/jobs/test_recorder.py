"""A recorder that can no longer record says nothing and goes on; the job itself tells of what is wrong."""

import time

import pytest

from tokenmill.pipeline import recorder
from tokenmill.pipeline.recorder import PROGRESS, Recorder


@pytest.mark.parametrize("fault", [MemoryError(), ImportError("cannot allocate memory"), OSError("full")])
def test_a_sample_that_fails_ends_nothing(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(recorder, "PERIOD", 0.01)
    monkeypatch.setattr(recorder, "SAMPLE_PERIOD", 0)
    asked = []

    def fail(self):
        asked.append(1)
        raise fault

    monkeypatch.setattr(Recorder, "_sample", fail)
    with Recorder(tmp_path, bytes_total=None, units_total=1) as running:
        until = time.monotonic() + 30
        while len(asked) < 3 and running._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        assert running._thread.is_alive()
    assert len(asked) >= 3
    assert (tmp_path / PROGRESS).exists()
