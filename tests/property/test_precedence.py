"""Whatever layers speak of a setting, the strongest one counts and is named."""

import tempfile
from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.base.words import UNITS, parse_size
from tokenmill.settings.resolve import resolve

VARIABLES = {
    "num_proc": ("DATASET_NUM_PROC", "execution.num_proc"),
    "batch_size": ("DATASET_BATCH_SIZE", "execution.batch_size"),
    "writer_batch_size": ("DATASET_WRITER_BATCH_SIZE", "execution.writer_batch_size"),
    "threads": ("RAYON_NUM_THREADS", "execution.threads"),
}
LAYER = st.dictionaries(st.sampled_from(sorted(VARIABLES)), st.integers(1, 100_000))


@given(flags=LAYER, environment=LAYER, file=LAYER, section=st.sampled_from(["tokenizer", "execution"]))
def test_flag_over_environment_over_file(flags, environment, file, section):
    environ = {VARIABLES[key][0]: str(value) for key, value in environment.items()}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "job.yaml"
        path.write_text(yaml.safe_dump({section: file}), encoding="utf-8")
        resolved = resolve(path, flags, environ)
    for key, (_, name) in VARIABLES.items():
        layers = {"flag": flags, "environment": environment, "file": file}
        winner = next((kind for kind, layer in layers.items() if key in layer), "automatic")
        assert resolved.origins[name].kind == winner
        if winner != "automatic":
            assert resolved.value(name) == layers[winner][key]


@given(st.integers(1, 1 << 30), st.sampled_from(sorted(UNITS)))
def test_sizes_are_exact(count, unit):
    assert parse_size(f"{count} {unit.lower()}") == count * UNITS[unit]
