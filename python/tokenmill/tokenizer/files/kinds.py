"""The kinds of tokenizer files: how each is named, recognised, read and written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tokenmill import _core
from tokenmill.base.durable import publish_bytes, stage_directory, sweep_leftovers, sync, temporary_name
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.files import hf, names, plain, sentencepiece, tiktoken
from tokenmill.tokenizer.recipe import make_printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tokenmill.tokenizer.recipe import Recipe


class FileKind(NamedTuple):
    """A kind of tokenizer file."""

    # What it is called in a directory of its own.
    file: str
    # The names that such a file may have; `load` looks inside where two kinds share one.
    patterns: tuple[str, ...]
    # Takes a path, and the caller's pattern and special tokens, if any.
    load: Callable[[Path, str | None, Mapping[str, int] | None], Recipe]
    # Returns the content of each file, None for one to remove; itself None for a kind that is only read.
    save: Callable[[Recipe], Mapping[str, bytes | None]] | None = None
    # True if saving fills a directory; otherwise it writes one file.
    fills_directory: bool = False
    # True if the file holds the split pattern.
    has_pattern: bool = True


def _load_json(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    text = path.read_bytes()
    if plain.is_vocabulary(text):
        merges = plain.find_merges(path)
        return plain.load_vocab_merges(path, merges, pattern, special_tokens)
    outline, bpe = _core.read_hf(text, make_printable(path))
    data = json.loads(outline)
    if tiktoken.is_tekken(data):
        return tiktoken.from_tekken(data, str(path))
    return hf.from_outline(data, bpe, text, str(path), hf.read_config_beside(path))


def _load_merges(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    vocab = names.VOCAB if path.name == names.MERGES else names.ENCODER
    return plain.load_vocab_merges(path.with_name(vocab), path, pattern, special_tokens)


def _load_model(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Recipe:
    if plain.is_minbpe(path):
        return plain.load_minbpe(path, pattern, special_tokens)
    return sentencepiece.load_file(path)


_JSON = ("*.json",)
_MODEL = (f"*{names.ANY_MODEL}", f"*{names.ANY_MODEL}.*")
_TIKTOKEN = (f"*{names.ANY_TIKTOKEN}", f"*{names.ANY_TIKTOKEN}.*")
# Of several files in a directory the first of these is loaded. `SaveFormat` names those that are written.
KINDS = {
    "hf": FileKind(names.TOKENIZER, _JSON, _load_json, hf.save, fills_directory=True),
    "vocab-merges": FileKind(
        names.VOCAB,
        (names.MERGES, "*.bpe"),
        _load_merges,
        plain.save_vocab_merges,
        fills_directory=True,
        has_pattern=False,
    ),
    "tekken": FileKind(names.TEKKEN, _JSON, _load_json),
    "sentencepiece": FileKind(names.MODEL, _MODEL, _load_model),
    "minbpe": FileKind(names.MODEL, _MODEL, _load_model, plain.save_minbpe),
    "tiktoken": FileKind(
        names.TIKTOKEN, _TIKTOKEN, tiktoken.load_file, tiktoken.save_tiktoken, has_pattern=False
    ),
}


def find_kind(path: Path) -> FileKind | None:
    """Return the first kind whose files may have this name, or None."""
    return next((kind for kind in KINDS.values() if any(map(path.match, kind.patterns))), None)


def find_in(directory: Path) -> Path | None:
    """Return the tokenizer file of a directory, or None."""
    return next((path for kind in KINDS.values() if (path := directory / kind.file).is_file()), None)


def save(recipe: Recipe, path: str | Path, format: str) -> None:  # noqa: A002 - the public name
    """Write `recipe` in one of the known formats; a failure leaves what was there unchanged."""
    kind = KINDS.get(format)
    if kind is None or kind.save is None:
        written = ", ".join(name for name, kind in KINDS.items() if kind.save)
        raise TokenizerError(f"format={format!r}; expected one of {written}")
    target, files = Path(path), kind.save(recipe)
    try:
        if kind.fills_directory and not (target.suffix == ".json" and kind.file == names.TOKENIZER):
            _publish(target, files)
        else:
            publish_bytes(target, files[kind.file] or b"")
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be written: {error}") from error


def _publish(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Write all files to a temporary directory first, then rename them into the folder."""
    contents = {name: data for name, data in files.items() if data is not None}
    if not folder.exists():
        with stage_directory(folder) as staging:
            for name, data in contents.items():
                (staging / name).write_bytes(data)
        return
    sweep_leftovers(folder)
    staging = temporary_name(folder / "save")
    try:
        for name, data in contents.items():
            publish_bytes(staging / name, data)
        for name in contents:
            (staging / name).replace(folder / name)
        for name in files.keys() - contents.keys():
            (folder / name).unlink(missing_ok=True)
        sync(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


# Templates of conversations and what `pattern.txt` says lie beside the vocabulary and belong to it.
_BESIDE = (*names.TEMPLATES, names.PATTERN)
_KEPT_AS = {"tekken": names.TEKKEN, "vocab-merges": names.VOCAB}


def copy_files(recipe: Recipe) -> dict[str, bytes]:
    """Return names and contents of the files to copy; empty for an object and an encoding known by name.

    A vocabulary that is in memory as text is taken from there, since its file may have changed.
    """
    source = Path(recipe.source)
    files: dict[str, bytes] = {}
    if recipe.hf is not None:
        files[names.TOKENIZER] = recipe.hf.spell_out().encode()
    elif source.is_file():
        files[_KEPT_AS.get(recipe.format, source.name)] = source.read_bytes()
        if recipe.format == "vocab-merges":
            files[names.MERGES] = plain.find_merges(source).read_bytes()
    elif recipe.model is not None and recipe.model.merges is not None:
        files[names.TOKENIZER] = json.dumps(hf.to_json(recipe), ensure_ascii=False).encode()
    if not files:
        return {}
    if recipe.config:
        files[names.TOKENIZER_CONFIG] = json.dumps(recipe.config, ensure_ascii=False, indent=2).encode()
    return files | dict(_read_beside(source))


def _read_beside(source: Path) -> Iterator[tuple[str, bytes]]:
    if source.is_file():
        for pattern in _BESIDE:
            for path in sorted(source.parent.glob(pattern)):
                yield path.relative_to(source.parent).as_posix(), path.read_bytes()
