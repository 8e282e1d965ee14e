"""`Tokenizer.as_hf()` and `patch_transformers()`: objects of transformers that encode with our core.

`CoreBackend` replaces `_tokenizer` in such an object, so that everything that transformers does around
encoding (arguments, warnings, tensors, templates, files) stays its own. The core encodes single texts, with
truncation on the right and padding. Pairs, strides, left truncation, pre-tokenized texts and invalid requests
go to the real tokenizer.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial, wraps
from typing import Any, Self

from tokenmill.base import logs
from tokenmill.base.machine import FALSE, default_threads
from tokenmill.errors import MissingExtraError, TokenizerError, TokenmillError
from tokenmill.tokenizer.files.hf import walk
from tokenmill.tokenizer.parity import find_difference
from tokenmill.tokenizer.recipe import Json
from tokenmill.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger("tokenmill")
# Attributes that decide ids: reading one may mean that the caller changes it.
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "model")
_CHANGES = frozenset({"add_tokens", "add_special_tokens", "train", "train_from_iterator", *_PARTS})
# The number of bytes that are compared with the real tokenizer on request.
_COMPARED = 1 << 18


def to_hf(tokenizer: Tokenizer, **options: Any) -> Any:
    """Return the tokenizer as transformers loads it from our files, with our core as its backend."""
    recipe = tokenizer.recipe
    fast_class = _import_fast_class()
    if recipe.python is not None:
        from transformers import PreTrainedTokenizerBase

        if isinstance(recipe.python, PreTrainedTokenizerBase):
            return recipe.python
        raise TokenizerError(
            f"{recipe.source}: a {type(recipe.python).__name__} has no tokenizer.json for transformers"
        )
    with tempfile.TemporaryDirectory(prefix="tokenmill-hf-") as folder:
        tokenizer.save(folder)
        loaded = fast_class.from_pretrained(folder, **options)
    # The folder is gone; messages and saved files name the source of the tokenizer.
    loaded.name_or_path = recipe.source
    loaded.init_kwargs["name_or_path"] = recipe.source
    if tokenizer.strategy.name == "native":
        _install(loaded, compare=False)
    return loaded


def patch_transformers(*, compare: bool = True) -> Patch:
    """Let fast tokenizers that transformers loads from now on run on our core where it supports them.

    The first documents that a tokenizer sees are also encoded by its own engine. If an id differs, that
    tokenizer returns to its own engine and an error is logged. An unsupported tokenizer stays as it was,
    with a warning.

    Args:
        compare: Compare the first documents of each tokenizer with its own engine.

    Returns:
        The patch: use it in a `with`, or call its `undo`. Tokenizers loaded meanwhile keep the core.

    Raises:
        MissingExtraError: transformers is not installed.

    Example:
        >>> import tokenmill
        >>> tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False).save("my-tokenizer")
        >>> with tokenmill.patch_transformers():
        ...     from transformers import AutoTokenizer
        ...     tokenizer = AutoTokenizer.from_pretrained("my-tokenizer")
        >>> tokenizer("low lower")["input_ids"]
        [258, 260, 82]
    """
    patched = _import_fast_class()
    logs.configure()
    return Patch(patched, compare=compare)


class Patch:
    """A patch in force; `undo` ends it."""

    def __init__(self, patched: Any, *, compare: bool) -> None:
        self._class = patched
        self._init = patched.__init__
        self._in_force = True

        @wraps(patched.__init__)
        def __init__(tokenizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            self._init(tokenizer, *arguments, **options)
            # A patch that was made later may be undone later too.
            if self._in_force and not isinstance(tokenizer._tokenizer, CoreBackend):  # noqa: SLF001
                _install(tokenizer, compare=compare)

        self._wrapped = patched.__init__ = __init__

    def undo(self) -> None:
        """Restore transformers; a second call does nothing."""
        self._in_force = False
        if self._class.__init__ is self._wrapped:
            self._class.__init__ = self._init

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


class ListColumn(list[Any]):
    """One row for each text, which Arrow converts at once.

    `datasets.map` converts every list to Arrow int by int, which takes longer than encoding the text.
    """

    def __arrow_array__(self, type: Any = None) -> Any:  # noqa: A002 - Arrow's name for it
        """Return what `pa.array` makes of the plain list."""
        import numpy as np
        import pyarrow as pa

        from tokenmill._core import flatten_lists

        flat = flatten_lists(self) if type is None else None
        if flat is None or not flat[0].nbytes or flat[1][-1] > np.iinfo(np.int32).max:
            return pa.array(list(self), type)
        ids = pa.Array.from_buffers(pa.int64(), len(flat[0]), [None, pa.py_buffer(flat[0])])
        return pa.ListArray.from_arrays(pa.array(np.asarray(flat[1]), pa.int32()), ids)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain list."""
        return list, (list(self),)


class _ReturnsColumns:
    """Mixed into a class of transformers: calls return `ListColumn`s."""

    def __call__(self, *texts: Any, **options: Any) -> Any:
        encoded = super().__call__(*texts, **options)  # type: ignore[misc]
        for name, column in encoded.items():
            if type(column) is list and column and type(column[0]) is list:
                encoded[name] = ListColumn(column)
        return encoded

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        made: tuple[Any, ...] = super().__reduce_ex__(max(protocol, 2))  # type: ignore[assignment]
        return _make_empty, (type(self).__mro__[2],), *made[2:]


@cache
def _make_class(base: Any) -> Any:
    """Return the subclass with such columns, under the name of its base, which saved files contain."""
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    return type(base.__name__, (_ReturnsColumns, base), names)


def _make_empty(base: Any) -> Any:
    made = _make_class(base)
    return made.__new__(made)


def _install(tokenizer: Any, *, compare: bool) -> None:
    """Put our core behind a tokenizer of transformers; `_tokenizer` is its only seam."""
    tokenizer._tokenizer = CoreBackend(tokenizer._tokenizer, compare)  # noqa: SLF001
    base: Any = type(tokenizer)
    if not issubclass(base, _ReturnsColumns):
        tokenizer.__class__ = _make_class(base)


def _import_fast_class() -> Any:
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        if "is required for a normal functioning" in str(error):
            reason = str(error).partition("\n")[0]
            raise TokenizerError(f"transformers refuses to load: {reason}") from error
        raise MissingExtraError.of("transformers", "hf", "a tokenizer of transformers") from error
    return PreTrainedTokenizerFast


class CoreBackend:
    """The replacement; with `compare`, the first documents are also encoded by the real tokenizer."""

    def __init__(self, real: Any, compare: bool) -> None:  # noqa: FBT001 - pickled by position
        self.__dict__.update(_real=real, _left=_COMPARED if compare else 0, _compare=compare)

    def __reduce__(self) -> tuple[Any, ...]:
        return CoreBackend, (self._real, self._compare)

    def __getattr__(self, name: str) -> Any:
        self._forget(name)
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._forget(name)
        setattr(self._real, name, value)

    def _forget(self, touched: str) -> None:
        """Drop what was derived from the real tokenizer if it may have changed."""
        if touched in _CHANGES:
            self.__dict__.pop("core", None)
            self.__dict__.pop("_frame", None)

    @cached_property
    def core(self) -> Tokenizer | None:
        """Our tokenizer with the ids of the real one; None if the core does not support it."""
        from tokenmill.tokenizer.tokenizer import Tokenizer

        try:
            made = Tokenizer.load(self._real)
            native, reason = made.strategy.name == "native", made.strategy.reason
        except TokenmillError as error:
            native, reason = False, str(error)
        if not native:
            logger.warning("This tokenizer stays with Hugging Face's engine: %s", reason)
        return made if native else None

    @cached_property
    def _frame(self) -> tuple[list[int], list[int]] | None:
        processor = self._real.post_processor
        return _read_frame(None if processor is None else json.loads(processor.__getstate__()))

    def encode_batch(
        self,
        input: Sequence[Any],  # noqa: A002 - the name that callers use
        is_pretokenized: bool = False,  # noqa: FBT001, FBT002
        add_special_tokens: bool = True,  # noqa: FBT001, FBT002
    ) -> list[Any]:
        """Return one encoding for each text or pair."""
        inputs = list(input)  # a copy: `tokens()` and offsets are computed later
        encode = partial(
            self._real.encode_batch,
            inputs,
            is_pretokenized=is_pretokenized,
            add_special_tokens=add_special_tokens,
        )
        if is_pretokenized or not all(isinstance(text, str) for text in inputs):
            return list(encode())
        before, after = self._frame or ([], [])
        if not add_special_tokens:
            before, after = [], []
        room = self._compute_room(len(before) + len(after))
        if room == 0 or self._frame is None or self.core is None:
            return list(encode())
        try:
            rows = self._encode(self.core, inputs)
        except TokenmillError:  # the real one reports what is wrong in its own words
            rows = None
        if rows is None:
            return list(encode())
        encode_later = cache(partial(_encode_with, self._real, _read_settings(self._real), encode))
        made = [
            CoreEncoding([*before, *row[:room], *after], len(before), len(after), index, encode_later)
            for index, row in enumerate(rows)
        ]
        self._pad(made)
        return made

    def encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,  # noqa: FBT001, FBT002
        add_special_tokens: bool = True,  # noqa: FBT001, FBT002
    ) -> Any:
        """Return the encoding of one text or pair."""
        if is_pretokenized or pair is not None:
            return self._real.encode(sequence, pair, is_pretokenized, add_special_tokens)
        return self.encode_batch([sequence], add_special_tokens=add_special_tokens)[0]

    def _compute_room(self, added: int) -> int | None:
        """Return how many ids of a text are kept: None for all, 0 if the real one must truncate."""
        truncation = self._real.truncation
        if truncation is None:
            return None
        plain = truncation["direction"] == "right" and truncation["stride"] == 0
        if not plain or truncation["strategy"] == "only_second":
            return 0
        return max(0, int(truncation["max_length"]) - added)

    def _encode(self, core: Tokenizer, texts: list[str]) -> list[list[int]] | None:
        """Return the ids of each text, or None after a difference from the real tokenizer."""
        as_text = self._real.encode_special_tokens
        rows = core.encode_lists(texts, special="text" if as_text else "parse", threads=_count_threads())
        if self._left <= 0:
            return rows
        held = 0
        sample: list[str] = []
        while held < self._left and len(sample) < len(texts):
            held += len(texts[len(sample)]) + 1
            sample.append(texts[len(sample)])
        encode = partial(self._real.encode_batch_fast, sample, add_special_tokens=False)
        theirs = [item.ids for item in _encode_with(self._real, (None, None, as_text), encode)]
        difference = find_difference(sample, rows[: len(sample)], theirs)
        if difference is not None:
            logger.error(
                "PARITY: tokenmill and Hugging Face differ, so this tokenizer continues with Hugging Face's "
                "engine. Nothing is wrong with your data; please report this: %s",
                difference,
            )
            self.__dict__.update(core=None, _left=0)
            return None
        self.__dict__["_left"] = self._left - held
        if self._left <= 0:
            logger.info("Parity: tokenmill and Hugging Face gave the same ids on the first documents")
        return rows

    def _pad(self, encodings: list[CoreEncoding]) -> None:
        padding = self._real.padding
        if padding is None or not encodings:
            return
        length = padding["length"]
        length = max(map(len, encodings)) if length is None else int(length)
        length += -length % (padding["pad_to_multiple_of"] or 1)
        for encoding in encodings:
            encoding.pad(length, padding)


class CoreEncoding:
    """A row with the attributes of `tokenizers.Encoding`; those that the core does not keep are lazy."""

    __slots__ = ("_after", "_before", "_encode_batch", "_index", "_pad_type", "_padded", "ids", "n_sequences")

    def __init__(
        self, ids: list[int], before: int, after: int, index: int, encode_batch: Callable[[], list[Any]]
    ) -> None:
        """Store the parts; `before` and `after` count special tokens."""
        self.ids = ids
        self._before, self._after = before, after
        self._index, self._encode_batch = index, encode_batch
        self._padded, self._pad_type = (0, 0), 0
        self.n_sequences = 1

    def pad(self, length: int, padding: dict[str, Any]) -> None:
        """Pad to a length, on the side that the options name."""
        missing = length - len(self.ids)
        if missing <= 0:
            return
        fill, self._pad_type = [padding["pad_id"]] * missing, padding["pad_type_id"]
        left = padding["direction"] == "left"
        self.ids, self._padded = (fill + self.ids, (missing, 0)) if left else (self.ids + fill, (0, missing))

    def _make_mask(self, padding: int, special: int, text: int) -> list[int]:
        left, right = self._padded
        inner = len(self.ids) - left - right - self._before - self._after
        return (
            [padding] * left
            + [special] * self._before
            + [text] * inner
            + [special] * self._after
            + [padding] * right
        )

    @property
    def type_ids(self) -> list[int]:
        """0 for the text."""
        return self._make_mask(self._pad_type, 0, 0)

    @property
    def attention_mask(self) -> list[int]:
        """0 for padding."""
        return self._make_mask(0, 1, 1)

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for padding and for what the template added."""
        return self._make_mask(1, 1, 0)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Encoding(num_tokens={len(self.ids)}, by tokenmill)"

    def __getattr__(self, name: str) -> Any:
        """Return tokens, offsets, words, overflow, and the methods that map between them."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._encode_batch()[self._index], name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the real encoding, since nothing else holds the text."""
        return _return_it, (self._encode_batch()[self._index],)


def _return_it(encoding: Any) -> Any:
    return encoding


# The state that a call of transformers sets in the real tokenizer before it encodes.
_Settings = tuple[dict[str, Any] | None, dict[str, Any] | None, bool]


def _read_settings(real: Any) -> _Settings:
    return real.truncation, real.padding, real.encode_special_tokens


def _write_settings(real: Any, settings: _Settings) -> None:
    truncation, padding, real.encode_special_tokens = settings
    real.no_truncation() if truncation is None else real.enable_truncation(**truncation)
    real.no_padding() if padding is None else real.enable_padding(**padding)


def _encode_with(real: Any, settings: _Settings, encode: Callable[[], list[Any]]) -> list[Any]:
    """Call `encode` under these settings of the real tokenizer, and restore the present ones."""
    before = _read_settings(real)
    _write_settings(real, settings)
    try:
        return encode()
    finally:
        _write_settings(real, before)


def _read_frame(post_processor: Json | None) -> tuple[list[int], list[int]] | None:
    """Return the ids that a post-processor puts before and after one text; None if it does anything else."""
    steps = [step for step in walk(post_processor) if step.get("type") != "ByteLevel"]
    if not steps:
        return [], []
    step = steps[0]
    if len(steps) == 1 and step.get("type") in {"BertProcessing", "RobertaProcessing"}:
        return [step["cls"][1]], [step["sep"][1]]
    if len(steps) > 1 or step.get("type") != "TemplateProcessing":
        return None
    ids = {name: entry["ids"] for name, entry in (step.get("special_tokens") or {}).items()}
    before: list[int] = []
    after: list[int] | None = None  # a list once the text has come
    for piece in step["single"]:
        ((kind, value),) = piece.items()
        if value["type_id"] != 0 or (kind == "Sequence" and (value["id"] != "A" or after is not None)):
            return None
        if kind == "Sequence":
            after = []
        else:
            (before if after is None else after).extend(ids[value["id"]])
    return None if after is None else (before, after)


def _count_threads() -> int:
    """Return the number that the variables of `tokenizers` set, or the default."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        return 1
    wanted = os.environ.get("RAYON_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else default_threads()
