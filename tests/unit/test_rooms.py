"""The house: imports point down only, and heavy optional packages are imported where they are used."""

import ast
from pathlib import Path

import pytest

import tokenmill

PACKAGE = Path(tokenmill.__file__).parent

# Top first. A room may import the rooms on later lines and itself, and nothing on its own line or above.
FLOORS = [
    {"cli", "compat"},
    {"jobs"},
    {"insight"},
    {"engine", "datasets"},
    {"sources"},
    {"settings"},
    {"base"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = {
    "ray",
    "transformers",
    "datasets",
    "torch",
    "plotly",
    "starlette",
    "uvicorn",
    "streaming",
    "litdata",
    "obstore",
    "tokenizers",
    "huggingface_hub",
}
CORE_USERS = {"base", "engine", "datasets", "sources"}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


def imports(path, *, top_level_only=False):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.walk(node)
    }
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    for node in nodes:
        if id(node) in typing_only and top_level_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the direction"
            if node.module == "tokenmill":
                yield from (f"tokenmill.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    room = path.relative_to(PACKAGE).parts[0]
    assert room in FLOOR, f"{room} is not in the house; add it to FLOORS and to ARCHITECTURE.md"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "tokenmill" or len(parts) < 2 or parts[1] == room:
            continue
        if parts[1] == "_core":
            assert room in CORE_USERS, f"{path}: only {sorted(CORE_USERS)} may call the core"
            continue
        assert parts[1] in FLOOR, f"{path}: {name} goes through the public face; import it from its home"
        assert FLOOR[parts[1]] > FLOOR[room], f"{path}: {room} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_are_imported_where_used(path):
    heavy = [name for name in imports(path, top_level_only=True) if name.split(".")[0] in HEAVY]
    assert not heavy, f"{path} imports {heavy} at its top: import it in the function that needs it"
