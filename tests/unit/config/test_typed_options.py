"""The keyword arguments that an editor completes are those of the schema."""

import pytest

from tokenmill.settings.options import PrepareOptions, TrainOptions
from tokenmill.settings.resolve import find_full_name
from tokenmill.settings.schema import SECTIONS, SETTINGS

# Named arguments of the functions.
ARGUMENTS = {"prepare": {"inputs", "tokenizer", "output"}, "train": {"inputs", "vocab_size", "output"}}


@pytest.mark.parametrize(("job", "options"), [("prepare", PrepareOptions), ("train", TrainOptions)])
def test_the_typed_options_are_those_of_the_schema(job, options):
    typed = set(options.__annotations__) - SECTIONS.keys()
    assert {find_full_name(name, job) for name in typed | ARGUMENTS[job]} >= {
        full for full, setting in SETTINGS.items() if setting.only in {None, job}
    }
    assert all(SETTINGS[find_full_name(name, job)].only in {None, job} for name in typed)
