"""Who speaks, how loud, and in which words."""

import json
import logging

import pytest

from tokenmill.base import lines
from tokenmill.base.logs import StderrHandler, configure, logger


@pytest.fixture(autouse=True)
def quiet_root(monkeypatch):
    """pytest's own root handlers would count as a program's own set-up."""
    monkeypatch.setattr("tokenmill.base.logs._program_has_handlers", lambda: False)
    before = logger.handlers[:], logger.level, logger.propagate
    logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, StderrHandler)]
    yield
    logger.handlers, logger.level, logger.propagate = before
    logger.setLevel(before[1])


def test_levels(capsys):
    configure("INFO", environ={})
    logger.debug("unseen")
    logger.info("seen")
    configure("ERROR", environ={})
    logger.warning("unseen")
    assert capsys.readouterr().err == "INFO: seen\n"


def test_only_rank_0_talks(capsys):
    configure("DEBUG", environ={"RANK": "3"})
    logger.warning("unseen")
    logger.error("seen")
    configure("INFO", environ={"RANK": "0"})
    logger.info("leader")
    assert capsys.readouterr().err == "ERROR: [Rank 3] seen\nINFO: leader\n"


def test_json_lines(capsys):
    configure("INFO", log_json=True, environ={"RANK": "0"})
    lines.log_split_end("train", 50_000, 125.45)
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert records[0]["examples_per_second"] == pytest.approx(398.6, abs=0.1)
    assert {record["level"] for record in records} == {"INFO"}
    assert all(record["rank"] == 0 and record["time"].endswith("Z") for record in records)


def test_a_programs_own_logging_is_kept(monkeypatch, capsys):
    monkeypatch.setattr("tokenmill.base.logs._program_has_handlers", lambda: True)
    configure("DEBUG", environ={})
    assert not any(isinstance(handler, StderrHandler) for handler in logger.handlers)
    assert logger.propagate
    assert logger.level == logging.DEBUG


def said(capsys, *calls):
    configure("DEBUG", environ={})
    for call in calls:
        call()
    return capsys.readouterr().err.splitlines()


def test_the_lines_users_look_for(capsys):
    found = said(
        capsys,
        lambda: lines.log_performance("huggingface", 6000),
        lambda: lines.log_performance("python", 4000, num_proc=8),
        lambda: lines.log_split_start("train", 50_000, workers=1),
        lambda: lines.log_split_end("train", 50_000, 125.45),
        lambda: lines.log_tokenizer("huggingface"),
        lines.log_warm_up,
        lines.log_warmed_up,
        lambda: lines.log_split_start("train", None, workers=48, kind="processes"),
        lambda: lines.log_loading(2, "threads", 8192),
        lambda: lines.log_skipped_parity("the package is missing", possible=True),
    )
    for line in (
        "INFO: Performance configuration: batch_size=6000, parallelism=fast_tokenizer_internal",
        "INFO: Performance configuration: batch_size=4000, num_proc=8, parallelism=python_multiprocessing",
        "INFO: Tokenizing split 'train' with 50000 examples",
        "INFO: Completed tokenizing split 'train' in 125.45 seconds",
        "INFO: Processed 50000 examples at 398.6 examples/sec",
        "DEBUG: Fast tokenizer detected - using internal Rust parallelism (num_proc=None)",
        "INFO: ✅ Using Fast Tokenizer (Rust-based)",
        "INFO: 🔥 Warming up tokenizer...",
        "INFO: ✅ Tokenizer warmed up",
        "INFO: ⚡ Tokenizing with 48 processes...",
        "INFO: Tokenizing split 'train'",
        "INFO:   - Writer batch size: 8192",
        "WARNING: Parity check skipped: the package is missing",
    ):
        assert line in found


def test_a_slow_tokenizer_comes_with_its_remedy(capsys):
    found = said(capsys, lambda: lines.log_tokenizer("python", processes=8))
    assert found[0] == "DEBUG: Slow tokenizer detected - using Python multiprocessing with 8 processes"
    assert found[1].startswith(
        "WARNING: Using slow tokenizer - consider upgrading to a fast tokenizer for better performance"
    )
    assert "tokenmill train" in found[1]


@pytest.mark.parametrize(
    ("megabytes", "word"), [(31.5, "very fast"), (20, "very fast"), (5, "fast"), (1, "normal"), (0.9, "slow")]
)
def test_ratings(megabytes, word):
    found = lines.rate(int(megabytes * 2 * 60e6), 60.0, 2)
    assert found.startswith(word)
    assert found.endswith("B/s per core)")


def test_a_short_job_has_no_rating():
    assert lines.rate(100, 9.9, 2) is None
