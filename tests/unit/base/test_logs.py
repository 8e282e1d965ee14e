"""Who speaks, how loud, and in which words."""

import logging
import re
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

import tokenmill
from byte_tokenizer import ByteTokenizer
from tokenmill.base.logs import StderrHandler, configure, logger, wrap


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


def test_a_programs_own_logging_is_kept(monkeypatch, capsys):
    monkeypatch.setattr("tokenmill.base.logs._program_has_handlers", lambda: True)
    configure("DEBUG", environ={})
    assert not any(isinstance(handler, StderrHandler) for handler in logger.handlers)
    assert logger.propagate
    assert logger.level == logging.DEBUG


def test_lines_fit_a_terminal_in_wide_characters_too(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    text = "INFO: 문서를 토큰으로 바꾸는 작업이 끝났습니다 " * 4 + "\n  - 读取 了 三 个 文件"
    lines = wrap(SimpleNamespace(isatty=lambda: True), text).split("\n")
    assert max(map(cell_len, lines)) in range(34, 41)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")
    assert lines[-1] == "  - 读取 了 三 个 文件"


def read_log(capsys, tmp_path, strategy, **options):
    """Return the lines that `prepare` logs with a tokenizer of this strategy."""
    texts = tmp_path / "a.jsonl"
    texts.write_text('{"text": "one two"}\n' * 5)
    tokenizer = ByteTokenizer()
    tokenizer.strategy = SimpleNamespace(name=strategy, reason="")
    tokenmill.prepare(
        str(texts), tokenizer, str(tmp_path / strategy), verbose_level="DEBUG", report=False, **options
    )
    return capsys.readouterr().err.splitlines()


def test_the_lines_users_look_for(capsys, tmp_path):
    found = read_log(capsys, tmp_path, "huggingface", batch_size=6000)
    for line in (
        "INFO: Performance configuration: batch_size=6000, parallelism=fast_tokenizer_internal",
        "INFO: Tokenizing split 'train' with 5 examples",
        "DEBUG: Fast tokenizer detected - using internal Rust parallelism (num_proc=None)",
        "INFO: ✅ Using Fast Tokenizer (Rust-based)",
        "INFO: 🔥 Warming up tokenizer...",
        "INFO: ✅ Tokenizer warmed up",
        "INFO:   - Writer batch size: 6000",
        "INFO: Parity check skipped: the tokenizer's own code runs, there is nothing to compare",
    ):
        assert line in found
    text = "\n".join(found)
    assert re.search(r"^INFO: Completed tokenizing split 'train' in \d+\.\d\d seconds$", text, re.MULTILINE)
    assert re.search(r"^INFO: Processed 5 examples at \d+\.\d examples/sec$", text, re.MULTILINE)


def test_a_slow_tokenizer_comes_with_its_remedy(capsys, tmp_path):
    found = read_log(capsys, tmp_path, "python", batch_size=4000, num_proc=8)
    assert "DEBUG: Slow tokenizer detected - using Python multiprocessing with 8 processes" in found
    line = "INFO: Performance configuration: batch_size=4000, num_proc=8, parallelism=python_multiprocessing"
    assert line in found
    assert "INFO: ⚡ Tokenizing with 8 processes..." in found
    warning = next(line for line in found if line.startswith("WARNING: Using slow tokenizer"))
    assert "consider upgrading to a fast tokenizer for better performance" in warning
    assert "tokenmill train" in warning


def test_a_long_job_is_rated_by_its_bytes_per_second_and_core(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.pipeline.run.SHORTEST_RATED", 0.0)
    monkeypatch.setattr("tokenmill.pipeline.run.RATINGS", ((1e12, "very fast"), (0, "slow")))
    found = read_log(capsys, tmp_path, "native")
    assert any(re.fullmatch(r"INFO: Rating: slow \(.*B/s per core\)", line) for line in found)
