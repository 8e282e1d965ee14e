"""The house: imports point down only, and heavy optional packages are imported where they are used."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import tokenmill

PACKAGE = Path(tokenmill.__file__).parent

# Top first. A room may import the rooms on later lines and itself, and nothing on its own line or above.
FLOORS = [
    {"cli", "compat"},
    {"web"},
    {"pipeline"},
    {"report"},
    {"vocab", "chat"},
    {"training"},
    {"tokenizer", "datasets"},
    {"sources"},
    {"settings"},
    {"base"},
    {"errors"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
# Every package of an extra by the name it is imported by, and what is imported if it is installed.
EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
PACKAGES = {re.split(r"[>=\[]", each)[0].replace("-", "_") for extra in EXTRAS.values() for each in extra}
HEAVY = PACKAGES - {"mosaicml_streaming"} | {
    "streaming",
    "tiktoken",
    "lightning",
    "grain",
    "pandas",
    "polars",
    "plotly",
}
# A module whose classes are made of such a package: it is itself imported where it is used.
MADE_OF = {"tokenmill.chat.environment": "jinja2"}
CORE_USERS = {"base", "tokenizer", "training", "vocab", "chat", "datasets", "sources"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


def imports(path, *, top_level_only=False):
    """Every module that is imported, `tokenmill.X` for a name of the public face; or only by importing this one."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in at_import(tree) if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the direction"
            if node.module == "tokenmill":
                yield from (f"tokenmill.{alias.name}" for alias in node.names)
            else:
                yield node.module
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "tokenmill"
        ):
            yield f"tokenmill.{node.attr}"


def at_import(node):
    """All that runs when a module is imported: what stands under `if`, `try` and `class` too."""
    for child in ast.iter_child_nodes(node):
        functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        is_typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not is_typing_only and not isinstance(child, functions):
            yield child
            yield from at_import(child)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = path.relative_to(PACKAGE).parts[0]
    assert room in FLOOR, f"{room} is not in the house; add it to FLOORS and to ARCHITECTURE.md"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "tokenmill" or len(parts) < 2 or parts[1] in {room, "__version__"}:
            continue
        if parts[1] == "_core":
            assert room in CORE_USERS, f"{path}: only {sorted(CORE_USERS)} may call the core"
            continue
        assert parts[1] in FLOOR, f"{path}: {name} goes through the public face; import it from its home"
        assert FLOOR[parts[1]] > FLOOR[room], f"{path}: {room} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_are_imported_where_used(path):
    module = ".".join(("tokenmill", *path.relative_to(PACKAGE).with_suffix("").parts))
    roots = {name: name.split(".")[0] for name in imports(path, top_level_only=True)}
    heavy = [name for name, root in roots.items() if name in MADE_OF or root in HEAVY - {MADE_OF.get(module)}]
    assert not heavy, f"{path} imports {heavy} at its top: import it in the function that needs it"
