"""One owner per idea: a name that means something to users is spelled in one module, and every module is used."""

import ast
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import tokenmill
from tokenmill import _core
from tokenmill.datasets.shards.format import format_names
from tokenmill.engine.files import names
from tokenmill.engine.files.kinds import KINDS, kind_of
from tokenmill.settings.fields import SaveFormat

PACKAGE = Path(tokenmill.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Files that users see in an output directory.
FILES = (
    "manifest.json",
    "plan.json",
    "progress.json",
    "removed.json",
    "tokenmill.lock",
    "events.jsonl",
    "report.json",
    "report.html",
    "training.json",
    "dataset_dict.json",
    "extension.json",
    "trim.json",
)
# Also kinds of input, or words of their own.
AMBIGUOUS = {"tokenmill", "arrow", "parquet"}
# Folders whose modules are found by name.
FOUND_BY_NAME = {Path("datasets/formats"), Path("datasets/columns"), Path("jobs/executors")}

# `python -m tokenmill.patch`
RUN_BY_NAME = {Path("patch.py")}


@cache
def strings(path):
    """Every string of a module that is not a docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return {node.value for node in strings if isinstance(node.value, str)}


def spelled(name):
    """The modules with a string that is `name`."""
    return {str(path.relative_to(PACKAGE)) for path in MODULES if name in strings(path)}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_named_in_one_module(name):
    assert len(spelled(name)) == 1


@pytest.mark.parametrize("name", sorted(set(format_names()) - AMBIGUOUS))
def test_a_format_is_named_in_its_own_module(name):
    assert spelled(name) <= {f"datasets/formats/{name}.py"}


@pytest.mark.parametrize("name", sorted({*names.VOCABULARIES, *names.CONFIGS, *names.READ, names.PATTERN}))
def test_a_tokenizer_file_is_named_in_one_module(name):
    assert spelled(name) <= {"engine/files/names.py"}, "import it from there"


def test_every_kind_of_tokenizer_file_has_a_name_and_a_reader():
    """What `save` writes into a directory is what loading looks for, and no module knows other names."""
    for kind in KINDS.values():
        assert kind.file in vars(names).values()
        assert kind_of(Path(kind.file)) is not None


def test_families_are_listed_in_the_core_alone():
    """The published encodings say which family each has, and an account knows models of such names."""
    names = {family.name for family in _core.families()}
    for path in MODULES:
        home = str(path.relative_to(PACKAGE))
        if home not in {"engine/files/encodings.py", "insight/account/model_shape.py"}:
            named = names & strings(path)
            assert len(named) <= 1, f"{home} names the families {sorted(named)}; ask the core for them"


def imported():
    """Every module of ours that some other module imports, by a statement anywhere in it."""
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # A table of a room may name its modules, as in "columnar:parquet_blocks".
                home = ".".join(("tokenmill", *path.relative_to(PACKAGE).parent.parts))
                found.add(f"{home}.{node.value.partition(':')[0]}")
    return found


def test_every_module_is_used_by_the_product():
    """Doors (compat) and commands are found by name too; somebody imports all else."""
    used = imported()
    for path in MODULES:
        relative = path.relative_to(PACKAGE)
        if path.name in {"__init__.py", "__main__.py"} or relative.parts[0] in {"cli", "compat"}:
            continue
        if relative.parent in FOUND_BY_NAME or relative in RUN_BY_NAME:
            continue
        name = ".".join(("tokenmill", *relative.with_suffix("").parts))
        assert name in used, f"{relative} is imported by nothing but tests; delete it"


def test_every_save_format_has_one_writer():
    assert {name for name, kind in KINDS.items() if kind.save} == set(get_args(SaveFormat))
