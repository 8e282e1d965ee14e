"""Shared fixtures. Hypothesis runs quickly by default and longer under HYPOTHESIS_PROFILE=slow."""

import logging
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

import spread

# In the background of a script the tests ignore Ctrl-C, and so would every command that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "slow", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process per core that we may use; more than eight would spend their time on imports."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return spread.make_scheduler(config, log)


# Tests that `make test` leaves to `make test-all`.
FULL = (
    "tests/browser/", "tests/docs/", "tests/scale/", "tests/terminal/", "tests/integration/test_hub.py",
    "tests/integration/test_memory.py::test_training_on_one_document", "tests/integration/test_odd_names.py::test_a_name_is_a_name[Korean",
    "tests/integration/test_ranks.py::test_a_killed_leader", "tests/integration/test_ranks.py::test_eight_ranks_prepare_at_once[torchrun",
    "tests/integration/test_remote_ranks.py::test_a_dead_leader", "tests/integration/test_transcode.py::test_a_killed_run",
    "tests/integration/test_web_server.py::test_a_template_has_limits", "tests/parity/test_configurations.py::test_normalizers_follow_hf_on_every",
    *(f"tests/parity/test_extend.py::test_hugging_face_gives_our_ids[{name}" for name in ("deep", "ll", "cl", "te", "qwen")),
    *(f"tests/parity/test_saving.py::test_{name}[qwen3.6" for name in ("hf_reads_what_we_save", "every_vocabulary_in_every_format")),
    "tests/parity/test_vocabularies.py::test_every_scalar_value", "tests/property/test_scan.py::test_every_scalar_value",
)  # fmt: skip
FULL_FILES = {"test_trainers.py", "test_trainer_formats.py", "test_real_readers.py", "test_finetune_example.py", "test_pretrain_example.py", "test_torch_environment.py"}  # fmt: skip


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid.startswith(FULL) or item.path.name in FULL_FILES:
            item.add_marker("full")
    if hasattr(config, "workerinput"):
        spread.order(items)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """What this machine remembers of other runs must not decide a test, nor a test what it remembers."""
    monkeypatch.setenv("TOKENMILL_CACHE", str(tmp_path_factory.getbasetemp() / "tokenmill-cache"))


@pytest.fixture(autouse=True)
def _own_logger():
    """What a test before this one told our loggers (a level, a handler, to keep records) must not decide it."""
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("tokenmill.")]:
        logging.getLogger(name).setLevel(logging.NOTSET)
    logger = logging.getLogger("tokenmill")
    logger.setLevel(logging.NOTSET)
    logger.propagate, logger.disabled = True, False
    logger.handlers = [handler for handler in logger.handlers if type(handler) is logging.NullHandler]
