"""Each output format is one object in one file: what it says of itself holds, and so do the remedies."""

import re
import shlex

import click
import pytest

import tokenmill
from byte_tokenizer import prepare_bytes
from tokenmill.cli import cli
from tokenmill.datasets.formats.format import MODULES, find_format, list_formats
from tokenmill.errors import ConfigError, DatasetError
from tokenmill.pipeline.convert import convert_dataset

TEXTS = [f"document {number} " * (number % 5 + 1) for number in range(40)]


def prepare(output, **options):
    return prepare_bytes(None, output, dataset=TEXTS, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A dataset in every format, by its name."""
    root = tmp_path_factory.mktemp("formats")
    for name in MODULES:
        prepare(root / name, format=name)
    return root


def test_an_unknown_format_is_an_error_that_lists_the_known():
    with pytest.raises(
        DatasetError, match=r"'jpeg' is not an output format; the formats are arrow, .*tokenmill"
    ):
        find_format("jpeg")


@pytest.mark.parametrize("known", list_formats(), ids=lambda known: known.name)
def test_a_dataset_has_the_files_beside_that_its_format_names(known, made):
    found = {path.name for path in (made / known.name).iterdir() if path.is_file()}
    ours = {"manifest.json", "plan.json", "progress.json"}
    assert {name for name in found - ours if not name.startswith(".")} == set(known.extra_files)


def parse(command):
    """The arguments of a command in a message, as click would take them, or its error."""
    found, arguments = cli, shlex.split(command)[1:]
    while isinstance(found, click.Group):
        name, *arguments = arguments
        found = found.get_command(click.Context(cli), name)
    return found.make_context(name, arguments, resilient_parsing=False)


def remedy(message):
    return re.search(r"tokenmill [a-z].*", message)[0]


@pytest.mark.parametrize(
    "known", [each for each in list_formats() if each.map_offsets is None], ids=lambda k: k.name
)
def test_the_remedy_for_a_dataset_that_is_not_mapped_works(known, made, tmp_path):
    with pytest.raises(DatasetError, match=known.read_by) as refused:
        tokenmill.open(made / known.name)[0]
    command = remedy(str(refused.value)).replace("NEW_DIR", str(tmp_path / "new"))
    context = parse(command.replace("INPUTS", str(tmp_path)))
    if not known.readable:
        assert context.info_name == "prepare"
    else:
        context.command.invoke(context)
        assert [ids.tolist() for ids in tokenmill.open(tmp_path / "new")] == [
            [*text.encode(), 256] for text in TEXTS
        ]


@pytest.mark.parametrize("name", [each.name for each in list_formats() if each.map_offsets is not None])
def test_formats_of_bare_tokens_are_mapped(name, made):
    assert [ids.tolist() for ids in tokenmill.open(made / name)] == [[*text.encode(), 256] for text in TEXTS]


def test_rows_in_another_format_are_sent_back_to_prepare(tmp_path):
    prepare(tmp_path / "out", format="npy", context_length=16)
    with pytest.raises(DatasetError, match="here: tokenmill prepare INPUTS"):
        tokenmill.open(tmp_path / "out").rows()


@pytest.mark.parametrize("name", [each.name for each in list_formats() if not each.readable])
def test_formats_that_are_not_read_back_are_refused(name, made, tmp_path):
    with pytest.raises(DatasetError, match="prepare it again with the format tokenmill"):
        convert_dataset(made / name, tmp_path / "new", "tokenmill")


def test_columns_where_there_is_no_place_for_them(tmp_path):
    with pytest.raises(ConfigError, match="write one of arrow, mds, npy, parquet"):
        prepare(tmp_path / "out", format="litdata", context_length=8, columns=("labels",))
