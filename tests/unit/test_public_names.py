"""Every public name says what it is, and its example runs."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import tokenmill
from tokenmill import errors

PACKAGE = Path(tokenmill.__file__).parent
MODULES = sorted(
    ".".join(("tokenmill", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
FUNCTIONS = [name for name in tokenmill.__all__ if inspect.isfunction(getattr(tokenmill, name))]
CLASSES = ["Dataset", "Mixture", "Rows", "Tokenizer"]


@pytest.fixture(scope="session")
def example():
    """The `tokenizer` of the doctests: a small tokenizer with an EOS token."""
    return tokenmill.train_from_iterator(
        ["one text, another text"] * 3, 260, special_tokens=["<|endoftext|>"], progress=False
    )


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    ran = 0
    for number, found in enumerate(finder.find(module, extraglobs={"tokenizer": example})):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        words = []
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=words.append)
        assert not result.failed, "".join(words)
        ran += result.attempted
    assert ran


def test_every_name_is_there_and_explained():
    assert tokenmill.__all__ == sorted(tokenmill.__all__, key=lambda name: (name.islower(), name))
    assert len(tokenmill.__all__) <= 16
    assert set(dir(tokenmill)) == {*tokenmill.__all__, "__version__"}
    for name in tokenmill.__all__:
        assert inspect.getdoc(getattr(tokenmill, name)), name
    for name in [*FUNCTIONS, *CLASSES]:
        assert ">>> " in getattr(tokenmill, name).__doc__, name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_take_give_and_raise(name):
    function = getattr(tokenmill, name)
    words, takes = function.__doc__, inspect.signature(function).parameters
    parts = ("Args", "Returns", "Raises") if takes else ("Returns", "Raises")
    assert all(f"\n    {part}:\n" in words for part in parts), words
    raised = re.findall(r"^        (\w+Error):", words, re.MULTILINE)
    assert raised
    assert all(hasattr(errors, name) for name in raised)


@pytest.mark.parametrize("name", CLASSES)
def test_methods_are_explained(name):
    for key, method in inspect.getmembers(getattr(tokenmill, name)):
        if not key.startswith("_") and (callable(method) or isinstance(method, property)):
            assert inspect.getdoc(method), f"{name}.{key}"


def test_an_unknown_name_lists_the_known():
    with pytest.raises(AttributeError, match="it has Dataset, Mixture"):
        tokenmill.Tokeniser  # noqa: B018
