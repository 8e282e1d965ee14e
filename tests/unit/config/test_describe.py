"""The schema as a commented file and as a table; export lines for a shell."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tokenmill.base.machine import GB, Cores, Machine, Memory
from tokenmill.cli import cli as command
from tokenmill.cli.config import env as env_command
from tokenmill.errors import ConfigError
from tokenmill.settings.describe import list_exports, make_template
from tokenmill.settings.resolve import resolve


def test_template_is_valid_and_changes_nothing_else(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(make_template(), encoding="utf-8")
    given = {name for name, origin in resolve(path, environ={}).origins.items() if origin.kind == "file"}
    assert given == {"source.inputs", "tokenizer.tokenizer_name", "output.path"}


def test_uncommented_template_is_all_defaults(tmp_path):
    text = re.sub(r"^  # ([a-z_]+: )", r"  \1", make_template(), flags=re.MULTILINE)
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    config, default = resolve(path, environ={}).config, resolve(environ={}).config
    assert config.filter == default.filter
    assert config.packing == default.packing
    assert config.training == default.training
    assert replace(config.output, path=None) == default.output
    assert replace(config.source, inputs=()) == default.source


def test_config_init_and_show(tmp_path):
    run = CliRunner()
    path = tmp_path / "job.yaml"
    assert run.invoke(command, ["config", "init", str(path)]).exit_code == 0
    again = run.invoke(command, ["config", "init", str(path)])
    assert isinstance(again.exception, ConfigError)
    shown = run.invoke(
        command,
        ["config", "show", str(path), "--set", "num_proc=1", "--json"],
        env={"DATASET_BATCH_SIZE": "77"},
    )
    rows = {row["name"]: row for row in json.loads(shown.stdout)["settings"]}
    assert rows["execution.num_proc"]["origin"] == "flag"
    assert rows["execution.batch_size"] == {
        "name": "execution.batch_size",
        "value": 77,
        "origin": "environment",
        "place": "DATASET_BATCH_SIZE=77",
    }
    assert rows["output.path"]["place"].startswith(f"{path}:")
    assert rows["execution.threads"]["origin"] == "automatic"
    assert "automatic: " in run.invoke(command, ["config", "show"]).stdout


def machine(usable, gigabytes, ranks=1):
    cores = Cores(usable, usable, usable, None, ranks, f"{usable} on this host")
    return Machine(cores, Memory(gigabytes * GB, "free on this host"))


@pytest.mark.parametrize(
    ("cores", "gigabytes", "batch"), [(48, 256, "20000"), (8, 32, "10000"), (4, 3, "500")]
)
def test_exports_follow_the_machine(cores, gigabytes, batch):
    values = {line.name: line.value for line in list_exports(machine(cores, gigabytes))}
    assert (values["DATASET_BATCH_SIZE"], values["RAYON_NUM_THREADS"]) == (batch, str(cores))
    assert not {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"} & values.keys()


def test_env_lines_survive_eval_and_are_settings():
    printed = CliRunner().invoke(env_command, []).stdout
    assert all(line.startswith("#") or "  # " in line for line in printed.splitlines())
    script = 'eval "$1"; echo "$DATASET_NUM_PROC $RAYON_NUM_THREADS $TOKENIZERS_PARALLELISM"'
    shell = subprocess.run(["sh", "-c", script, "sh", printed], capture_output=True, text=True, check=True)
    processes, threads, parallelism = shell.stdout.split()
    assert parallelism == "true"
    environ = {
        "DATASET_NUM_PROC": processes,
        "RAYON_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": parallelism,
    }
    assert resolve(environ=environ).config.execution.threads == int(threads) <= (os.cpu_count() or 1)


@pytest.mark.parametrize("name", ["pretrain.sh", "pretrain_cont.sh"])
def test_the_example_scripts_keep_variables_that_are_set(name, tmp_path):
    given = {"DATASET_NUM_PROC": "77", "RAYON_NUM_THREADS": "3", "TOKENIZER": str(tmp_path)}
    launch = tmp_path / "launch"  # in place of torchrun
    launch.write_text('#!/bin/sh\necho "$RAYON_NUM_THREADS $*"\n')
    launch.chmod(0o755)
    tools = {"TOKENMILL": f"{sys.executable} -m tokenmill", "LAUNCH": str(launch)}
    script = Path(__file__).parents[3] / "examples" / name
    run = ["bash", str(script)]
    environ = os.environ | given | tools
    shown = subprocess.run(run, capture_output=True, text=True, check=True, env=environ).stdout
    assert shown.startswith("3 examples/pretrain.py")
    assert "--num_proc 77" in shown
