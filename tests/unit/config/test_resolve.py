"""Precedence, provenance, and the settings that users bring from elsewhere."""

from pathlib import Path

import pytest

from tokenmill.base.machine import GB, Cores, Machine, Memory
from tokenmill.settings.resolve import from_options, resolve

# Settings files of existing projects, word for word.
FILES = Path(__file__).parent / "files"


@pytest.fixture
def job(tmp_path):
    def write(text):
        path = tmp_path / "job.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_partial_yaml_files_are_valid_as_they_stand():
    assert resolve(FILES / "loud.yaml", environ={}).config.execution.verbose_level == "DEBUG"
    tuned = resolve(FILES / "tuned.yaml", environ={}).config.execution
    assert (tuned.batch_size, tuned.num_proc, tuned.show_progress) == (8000, 16, False)


def test_flag_over_environment_over_file_over_automatic(job):
    file = job("tokenizer:\n  num_proc: 2\n  batch_size: 10\nexecution:\n  writer_batch_size: 30\n")
    environ = {"DATASET_NUM_PROC": "3", "DATASET_BATCH_SIZE": "20"}
    resolved = resolve(file, {"num_proc": 4, "batch_size": None}, environ)
    execution = resolved.config.execution
    assert (execution.num_proc, execution.batch_size, execution.writer_batch_size) == (4, 20, 30)
    told = {name.partition(".")[2]: str(origin) for name, origin in resolved.origins.items()}
    assert told["num_proc"] == "--num-proc"
    assert told["batch_size"] == "environment: DATASET_BATCH_SIZE=20"
    assert told["writer_batch_size"] == f"{file}:5"
    assert told["threads"].startswith("automatic: ")
    assert told["on_error"] == "default"


def test_every_setting_has_an_origin():
    resolved = resolve(environ={})
    dump = resolved.config.to_dict()
    assert set(resolved.origins) == {f"{section}.{key}" for section in dump for key in dump[section]}


@pytest.mark.parametrize(
    ("environ", "threads"),
    [
        ({"RAYON_RS_NUM_THREADS": "16"}, 16),
        ({"RAYON_NUM_THREADS": "8", "RAYON_RS_NUM_THREADS": "16"}, 8),
        ({"TOKENIZERS_PARALLELISM": "false", "RAYON_RS_NUM_THREADS": "16"}, 1),
        ({"TOKENMILL_THREADS": "3", "TOKENIZERS_PARALLELISM": "false"}, 3),
        ({"OMP_NUM_THREADS": "5,2"}, 5),
    ],
)
def test_thread_variables(environ, threads):
    assert resolve(environ=environ).config.execution.threads == threads


def test_torchruns_own_guess_is_not_a_wish():
    asked = resolve(environ={"OMP_NUM_THREADS": "1"})
    guessed = resolve(environ={"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"})
    assert asked.is_set_by_user("execution.threads")
    assert not guessed.is_set_by_user("execution.threads")


def test_our_own_variables_name_any_setting():
    environ = {
        "TOKENMILL_OUTPUT_FORMAT": "megatron",
        "TOKENMILL_SOURCE__FORMAT": "jsonl",
        "TOKENMILL_CONTEXT_LENGTH": "128",
        "TOKENMILL_INPUTS": "a.jsonl, b.jsonl",
        "TOKENMILL_SHOW_PROGRESS": "no",
    }
    config = resolve(environ=environ).config
    assert config.output.format == "megatron"
    assert config.source.format == "jsonl"
    assert config.packing.mode == "concat"
    assert config.source.inputs == ("a.jsonl", "b.jsonl")
    assert config.execution.show_progress is False


def test_variables_that_mean_nothing_or_disagree_are_named():
    resolved = resolve(environ={"TOKENMILL_NUM_PROCS": "3"})
    assert "TOKENMILL_NUM_PROC'" in resolved.warnings[0]
    both = resolve(environ={"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "2"})
    assert "unset OMP_NUM_THREADS" in both.warnings[0]


def test_more_than_the_machine_has_is_taken_with_a_warning():
    resolved = resolve(flags={"num_proc": 100_000}, environ={})
    assert resolved.config.execution.num_proc == 100_000
    assert [line.split()[0] for line in resolved.warnings] == ["execution.num_proc"]


@pytest.mark.parametrize(
    ("flags", "environ", "threads"),
    [
        ({"num_proc": 3}, {}, 3),
        ({}, {"DATASET_NUM_PROC": "1"}, 1),
        ({"num_proc": 100}, {}, 8),
        ({"num_proc": 1, "threads": 4}, {}, 4),
    ],
)
def test_num_proc_caps_the_threads_that_nobody_set(flags, environ, threads):
    machine = Machine(Cores(8, 8, 8, None, 1, "8 on this host"), Memory(60 * GB, "free"))
    resolved = resolve(flags=flags, environ=environ, machine=machine)
    assert resolved.config.execution.threads == threads
    capped = "no more than num_proc" in str(resolved.origins["execution.threads"])
    assert capped == (threads in {1, 3})


def test_options_route_to_their_sections(tmp_path):
    resolved = from_options(
        inputs=[str(tmp_path)],
        tokenizer="t",
        output=tmp_path,
        format="npy",
        packing="pad",
        context_length=8,
        environ={},
    )
    config = resolved.config
    assert config.tokenizer.tokenizer_name == "t"
    assert (config.output.path, config.output.format) == (str(tmp_path), "npy")
    assert (config.packing.mode, config.packing.context_length) == ("pad", 8)
    assert config.source.inputs == (str(tmp_path),)


def test_a_file_named_by_the_environment():
    environ = {"TOKENMILL_CONFIG": str(FILES / "debug.yaml")}
    assert resolve(environ=environ).config.packing.context_length == 1024
