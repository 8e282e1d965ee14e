"""The kinds of tokenizer files, and how a tokenizer is loaded from anywhere and saved in any of them.

A source is a path, the name of an encoding, a hub id, or an object of another library.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill import _core
from tokenmill.base.durable import publish_bytes, sweep_leftovers, sync, temporary_name
from tokenmill.base.words import suggest_paths
from tokenmill.errors import MissingExtraError, TokenizerError, TokenizerNotFoundError, explain_missing
from tokenmill.tokenizer.files import hf, names, plain, sentencepiece, tiktoken
from tokenmill.tokenizer.recipe import AddedToken, Json, Recipe, add_specials, make_printable

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_HUB_FILES = [*names.CONFIGS, *names.TEMPLATES, *names.READ]
_ROLES = ("bos_token", "eos_token", "pad_token", "unk_token")
_EXPECTED = (
    "expected a tokenizer.json (or its directory), a .tiktoken, vocab.json + merges.txt, a SentencePiece or "
    "minbpe .model, a hub id such as org/name, or one of " + ", ".join(tiktoken.ENCODINGS)
)
# The first value in a vocab.json is a number.
_VOCABULARY = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*-?\d')


class FileKind(NamedTuple):
    """A kind of tokenizer file."""

    # Its usual file name in a directory.
    file: str
    # The names that such a file may have; `load` looks inside where two kinds share one.
    patterns: tuple[str, ...]
    # Takes a path and the caller's pattern, if any.
    load: Callable[[Path, str | None], Recipe]
    # Returns the content of each file, None for one to remove; itself None for a kind that is only read.
    save: Callable[[Recipe], Mapping[str, bytes | None]] | None = None
    # True if saving fills a directory; otherwise it writes one file.
    fills_directory: bool = False


def _load_json(path: Path, pattern: str | None) -> Recipe:
    text = path.read_bytes()
    if _VOCABULARY.match(text):
        return plain.load_vocab_merges(path, plain.find_merges(path), pattern)
    outline, bpe = _core.read_hf(text, make_printable(path))
    data = json.loads(outline)
    if isinstance(data.get("config"), dict) and isinstance(data.get("vocab"), list):
        return tiktoken.from_tekken(data, str(path))
    return hf.from_outline(data, bpe, text, str(path), hf.read_config_beside(path))


def _load_model(path: Path, pattern: str | None) -> Recipe:
    with path.open("rb") as file:
        if file.read(len(plain.HEADER)) != plain.HEADER.encode():
            return sentencepiece.load_file(path)
    return plain.load_minbpe(path, pattern)


_JSON = ("*.json",)
_MODEL = (f"*{names.ANY_MODEL}", f"*{names.ANY_MODEL}.*")  # Mistral's end in .model.v3
_TIKTOKEN = (f"*{names.ANY_TIKTOKEN}",)
# Of several files in a directory the first of these is loaded. `SaveFormat` names those that are written.
KINDS = {
    "hf": FileKind(names.TOKENIZER, _JSON, _load_json, hf.save, fills_directory=True),
    "vocab-merges": FileKind(names.VOCAB, _JSON, _load_json, plain.save_vocab_merges, fills_directory=True),
    "tekken": FileKind(names.TEKKEN, _JSON, _load_json),
    "sentencepiece": FileKind(names.MODEL, _MODEL, _load_model),
    "minbpe": FileKind(names.MODEL, _MODEL, _load_model, plain.save_minbpe),
    "tiktoken": FileKind(names.TIKTOKEN, _TIKTOKEN, tiktoken.load_file, tiktoken.save_tiktoken),
}


def find_kind(path: Path) -> FileKind | None:
    """Return the first kind whose files may have this name, or None."""
    return next((kind for kind in KINDS.values() if any(map(path.match, kind.patterns))), None)


def find_in(directory: Path) -> Path | None:
    """Return the tokenizer file of a directory, or None."""
    return next((path for kind in KINDS.values() if (path := directory / kind.file).is_file()), None)


def load_recipe(
    source: Any, *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> Recipe:
    """Return the recipe of a path, a name, a hub id or an object."""
    if pattern is not None:
        # A misspelled family is an error even for a file that has its own pattern.
        _core.pre_tokenizer(pattern)
    return add_specials(_load(getattr(source, "recipe", source), pattern), special_tokens)


def _load(source: Any, pattern: str | None) -> Recipe:
    if isinstance(source, Recipe):
        return source
    if not isinstance(source, (str, Path)):
        return _load_object(source)
    path, name = Path(source), str(source)
    if needs_python(path):
        return _load_directory(path)
    if not path.exists() and name in tiktoken.ENCODINGS:
        return tiktoken.load_name(name)
    if not path.exists():
        path = _fetch(name)
    if path.is_dir():
        path = _find_file(path)
    kind = find_kind(path)
    if kind is None:
        raise TokenizerError(f"{path}: unknown kind of tokenizer file; expected .json, .tiktoken or .model")
    try:
        return kind.load(path, pattern)
    except OSError as error:
        if isinstance(error, TokenizerError):
            raise
        raise TokenizerError(f"{path}: cannot be read: {error}") from error


def needs_python(path: Path) -> bool:
    """Return True if this is a saved transformers tokenizer that only its own class can load."""
    return (path / names.TOKENIZER_CONFIG).is_file() and find_in(path) is None


def _find_file(path: Path) -> Path:
    if found := find_in(path):
        return found
    others = [file for end in (names.ANY_TIKTOKEN, names.ANY_MODEL) for file in path.glob(f"*{end}")]
    if len(others) == 1:
        return others[0]
    usual = ", ".join(dict.fromkeys(kind.file for kind in KINDS.values()))
    raise TokenizerNotFoundError(
        f"{path}: contains no tokenizer; expected one of {usual}, or one .tiktoken or .model"
    )


def _fetch(name: str) -> Path:
    """Return the directory in the hub's cache that holds the tokenizer's files; downloads what is missing."""
    near = [str(path) for path in suggest_paths(Path(name)) if find_in(path) or find_kind(path)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    if not _HUB_ID.fullmatch(name) or name.endswith(names.SUFFIXES):
        raise TokenizerNotFoundError(f"{name}: no such file or directory{meant or '; ' + _EXPECTED}")
    try:
        from huggingface_hub import snapshot_download

        found = Path(snapshot_download(name, allow_patterns=_HUB_FILES))  # from the cache if offline
    except Exception as error:
        if isinstance(error, ImportError) and not near:
            purpose = f"{name}: no such file or directory; loading it from the hub"
            raise MissingExtraError.of("huggingface-hub", "hf", purpose) from error
        reason = str(error).partition("\n")[0]
        hub = f", and neither the hub nor its cache has it ({type(error).__name__}: {reason})"
        raise TokenizerNotFoundError(f"{name}: no such file or directory{meant or hub}") from error
    words = "Tokenizer %s is from the Hugging Face Hub, since there is no such local path%s"
    logging.getLogger("tokenmill").log(logging.WARNING if near else logging.INFO, words, name, meant)
    return found


def _load_object(source: Any) -> Recipe:
    """Return the recipe of an object, chosen by its methods rather than its class."""
    kind = f"{type(source).__module__}.{type(source).__name__}"
    if hasattr(source, "_mergeable_ranks") and hasattr(source, "_pat_str"):
        return tiktoken.from_encoding(source)
    inner = getattr(source, "backend_tokenizer", source if hasattr(source, "to_str") else None)
    name = str(getattr(source, "name_or_path", "") or kind)
    config = _read_config(source)
    if inner is None and (callable(source) or callable(getattr(source, "encode", None))):
        return Recipe(name, "python", None, _read_specials(source), config=config, python=source)
    if inner is None:
        raise TokenizerError(
            f"a {kind} is not a tokenizer that tokenmill can read; expected a path, a tokenizers.Tokenizer, "
            "a transformers tokenizer, a tiktoken.Encoding, or an object with encode(text) or __call__(text)"
        )
    with warnings.catch_warnings():
        # The object already has the ids that its file may not have had.
        warnings.simplefilter("ignore")
        text = inner.to_str().encode(errors="surrogatepass")
        outline, bpe = _core.read_hf(text, make_printable(name))
        return hf.from_outline(json.loads(outline), bpe, text, name, config)


def _load_directory(path: Path) -> Recipe:
    """Return the recipe of a directory that only transformers can read."""
    with explain_missing("transformers", "hf", f"{path}: this tokenizer"):
        from transformers import AutoTokenizer
    try:
        # Left open, transformers would ask on stdin whether to run the Python that comes with the files.
        return _load_object(AutoTokenizer.from_pretrained(str(path), trust_remote_code=False))
    except TokenizerError:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise TokenizerError(
                f"{path}: this tokenizer is Python code that comes with its files, which is not run without "
                "your consent. If you trust it, load it yourself with AutoTokenizer.from_pretrained(…, "
                "trust_remote_code=True) and pass the object to Tokenizer.load"
            ) from error
        raise TokenizerError(f"{path}: transformers cannot load it: {error}") from error


def _read_specials(source: Any) -> tuple[AddedToken, ...]:
    """Return the special tokens of a Python tokenizer, where it gives their ids."""
    ask = getattr(source, "convert_tokens_to_ids", None)
    listed = getattr(source, "all_special_tokens", None) or ()
    ids = {str(name): ask(str(name)) for name in listed} if callable(ask) else {}
    return tuple(AddedToken(name, token_id) for name, token_id in ids.items() if isinstance(token_id, int))


def _read_config(source: Any) -> Json:
    roles = {role: getattr(source, role, None) for role in _ROLES}
    config: Json = {role: str(value) for role, value in roles.items() if value is not None}
    template = getattr(source, "chat_template", None)
    if isinstance(template, str | dict | list):
        config["chat_template"] = template
    return config


def save(recipe: Recipe, path: str | Path, format: str) -> None:  # noqa: A002 - the public name
    """Write `recipe` in one of the known formats; a failure leaves what was there unchanged."""
    target, files, kind = Path(path), list_files(recipe, format), KINDS[format]
    try:
        if kind.fills_directory and not (target.suffix == ".json" and kind.file == names.TOKENIZER):
            publish_files(target, files)
        else:
            publish_bytes(target, files[kind.file] or b"")
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be written: {error}") from error


def list_files(recipe: Recipe, format: str) -> Mapping[str, bytes | None]:  # noqa: A002
    """Return the content of each file of a format; None for one to remove."""
    kind = KINDS.get(format)
    if kind is None or kind.save is None:
        written = ", ".join(name for name, kind in KINDS.items() if kind.save)
        raise TokenizerError(f"format={format!r}; expected one of {written}")
    return kind.save(recipe)


def publish_files(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Write all files to a temporary directory first, then rename them into the folder."""
    contents = {name: data for name, data in files.items() if data is not None}
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


# Chat templates and `pattern.txt` are in the directory of the vocabulary and belong to it.
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
    for pattern in _BESIDE if source.is_file() else ():
        for path in sorted(source.parent.glob(pattern)):
            files[path.relative_to(source.parent).as_posix()] = path.read_bytes()
    return files
