"""One owner per idea: a name that means something to users is spelled in one module, and every module is used."""

import ast
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import tokenmill
from tokenmill import _core
from tokenmill.cli import COMMANDS, FORMER
from tokenmill.datasets.packing.column import list_column_names
from tokenmill.datasets.shards.format import list_format_names
from tokenmill.engine.files import names
from tokenmill.engine.files.kinds import KINDS, find_kind
from tokenmill.settings.fields import SaveFormat

PACKAGE = Path(tokenmill.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
CRATES = Path(__file__).parents[2] / "crates"

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
# Folders whose modules are found by name; those of `compat` by users.
FOUND_BY_NAME = {Path("datasets/formats"), Path("datasets/columns"), Path("jobs/executors"), Path("compat")}

FAMILIES = {name for family in _core.families() for name in (family.name, *family.aliases)}
# What a module means by such a name, where it is not the family's own home.
FAMILIES_NAMED = {
    "engine/files/encodings.py": FAMILIES,  # the family of each published encoding
    "insight/cost/model_shape.py": {"gpt2", "qwen2"},  # models
    "engine/files/tekken.py": {"tekken"},  # a kind of file
    "engine/files/kinds.py": {"tekken"},
    "engine/files/copying.py": {"tekken"},
    "settings/schema.py": {"gpt2"},  # a default
    "engine/files/vocab_merges.py": {"gpt2"},
    "compat/cs336.py": {"gpt2"},
}


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


@pytest.mark.parametrize("name", sorted(set(list_format_names()) - AMBIGUOUS))
def test_a_format_is_named_in_its_own_module(name):
    assert spelled(name) == {f"datasets/formats/{name}.py"}


# The documents of rows are looked at by those who show rows, and by convert, which must not lose them.
@pytest.mark.parametrize("name", sorted({*list_column_names()} - {"document_ids"}))
def test_a_column_is_named_in_its_own_module(name):
    assert spelled(name) == {f"datasets/columns/{name}.py"}


@pytest.mark.parametrize("name", sorted({*names.VOCABULARIES, *names.CONFIGS, *names.READ, names.PATTERN}))
def test_a_tokenizer_file_is_named_in_one_module(name):
    assert spelled(name) <= {"engine/files/names.py"}, "import it from there"


def test_every_kind_of_tokenizer_file_has_a_name_and_a_reader():
    """What `save` writes into a directory is what loading looks for, and no module knows other names."""
    for kind in KINDS.values():
        assert kind.file in vars(names).values()
        assert find_kind(Path(kind.file)) is not None


def test_families_are_named_in_the_core_alone():
    for path in MODULES:
        home = str(path.relative_to(PACKAGE))
        named = FAMILIES & strings(path)
        assert named <= FAMILIES_NAMED.get(home, set()), (
            f"{home} names {sorted(named)}; ask the core for them"
        )


def test_families_have_one_table_in_the_core():
    """Only the table names them: the tests of a module stand after its code."""
    for path in sorted((CRATES).rglob("src/**/*.rs")):
        code = path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        code = "\n".join(line.partition("//")[0] for line in code.splitlines())
        named = {name for name in FAMILIES if f'"{name}"' in code}
        if path.parts[-2:] != ("scan", "known.rs") and "tests" not in path.stem:
            assert not named, f"{path} names the families {sorted(named)}"


def imports(path):
    """Every module of ours that a module imports, by a statement anywhere in it or by a table."""
    home = ".".join(("tokenmill", *path.relative_to(PACKAGE).parent.parts))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            # A room may name a function of its modules, as in "columnar:read_parquet".
            yield f"{home}.{node.value.partition(':')[0]}"


def entrances():
    """Modules that are found by name: commands, doors, the public face, what a folder is searched for."""
    yield from ("tokenmill", "tokenmill.__main__", "tokenmill.patch", "tokenmill.cli")
    tables = (*COMMANDS.values(), {name: (module,) for name, module in FORMER.items()})
    yield from (f"tokenmill.cli.{row[0]}" for table in tables for row in table.values())
    yield from (f"tokenmill.{home}" for home in tokenmill._HOMES)
    for path in MODULES:
        if path.parent.relative_to(PACKAGE) in FOUND_BY_NAME:
            yield module_name(path)


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("tokenmill", *(part for part in parts if part != "__init__")))


def test_every_module_is_used_by_the_product():
    """From the entrances on: modules that only import each other, or are named by chance, are not used."""
    paths = {module_name(path): path for path in MODULES}
    used, waiting = set(), [name for name in entrances() if name in paths]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += {found for found in imports(paths[name]) if found in paths}
    unused = {name for name in paths if name not in used and paths[name].name != "__init__.py"}
    assert not unused, f"{sorted(unused)} are reached by nothing but tests; delete them"


def test_every_save_format_has_one_writer():
    assert {name for name, kind in KINDS.items() if kind.save} == set(get_args(SaveFormat))
