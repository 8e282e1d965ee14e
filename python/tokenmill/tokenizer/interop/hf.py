"""`Tokenizer.as_hf()` and `patch_transformers()`: objects of transformers that encode with our core.

`CoreBackend` replaces `_tokenizer` in such an object, so that everything that transformers does around
encoding (arguments, warnings, tensors, templates, files) stays its own. The core encodes single texts, with
truncation on the right and padding. Everything else goes to the real tokenizer: pairs, strides, left
truncation, pre-tokenized texts, invalid requests, offsets, words and masks of special tokens.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, cached_property, partial, wraps
from operator import itemgetter
from typing import Any

from tokenmill.base import logs
from tokenmill.base.machine import FALSE, default_threads
from tokenmill.errors import TokenizerError, TokenmillError, explain_missing
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.parity import find_difference, take_sample
from tokenmill.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger("tokenmill")
# Attributes that decide ids: reading one may mean that the caller changes it.
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "model")
_CHANGES = frozenset({"add_tokens", "add_special_tokens", "train", "train_from_iterator", *_PARTS})
# The number of bytes that a patched tokenizer compares with the real one.
_COMPARED = 1 << 18


def to_hf(tokenizer: Tokenizer, **options: Any) -> Any:
    """Return the tokenizer as transformers loads it from our files, with our core as its backend."""
    recipe = tokenizer.recipe
    fast_class = _import_fast_class()
    if recipe.python is not None:
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
        loaded._tokenizer = CoreBackend(loaded._tokenizer, compare=0)  # noqa: SLF001
    return loaded


def patch_transformers() -> ExitStack:
    """Let fast tokenizers that transformers loads from now on run on our core where it supports them.

    The first documents that a tokenizer sees are also encoded by its own engine. If an id differs, that
    tokenizer returns to its own engine and an error is logged. An unsupported tokenizer stays as it was,
    with a warning.

    Returns:
        The patch: use it in a `with`, or call its `close`. Tokenizers loaded meanwhile keep the core.

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
    # A second patch replaces the first.
    original = getattr(patched.__init__, "unpatched", patched.__init__)

    @wraps(original)
    def __init__(tokenizer: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        original(tokenizer, *arguments, **options)
        if not isinstance(tokenizer._tokenizer, CoreBackend):  # noqa: SLF001
            tokenizer._tokenizer = CoreBackend(tokenizer._tokenizer, _COMPARED)  # noqa: SLF001

    __init__.unpatched = original  # type: ignore[attr-defined]
    patched.__init__ = __init__
    patch = ExitStack()
    patch.callback(setattr, patched, "__init__", original)
    return patch


def _import_fast_class() -> Any:
    with explain_missing("transformers", "hf", "a tokenizer of transformers"):
        from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast


class CoreBackend:
    """The replacement; the first `compare` bytes are also encoded by the real tokenizer."""

    def __init__(self, real: Any, compare: int) -> None:
        self.__dict__.update(_real=real, _compare=compare)

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
        """The ids that the template puts before and after a text; None if it does anything else."""
        probe = partial(self._real.encode_batch, ["x"])
        (framed,) = _encode_with(self._real, (None, None, False), probe)
        (plain,) = _encode_with(self._real, (None, None, False), partial(probe, add_special_tokens=False))
        mask = framed.special_tokens_mask
        if any(framed.type_ids) or not plain.ids or mask.count(0) != len(plain.ids):
            return None
        start = mask.index(0)
        end = start + len(plain.ids)
        return (framed.ids[:start], framed.ids[end:]) if framed.ids[start:end] == plain.ids else None

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
        plain = not is_pretokenized and all(isinstance(text, str) for text in inputs)
        rows = self._encode(inputs, template=add_special_tokens) if plain else None
        if rows is None:
            return list(encode())
        later = cache(partial(_encode_with, self._real, _read_settings(self._real), encode))
        made = [CoreEncoding(row, index, later) for index, row in enumerate(rows)]
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

    def _encode(self, texts: list[str], *, template: bool) -> list[list[int]] | None:
        """Return the truncated ids of each text; None if the real tokenizer must encode them."""
        if self._frame is None or self.core is None:
            return None
        before, after = self._frame if template else ([], [])
        truncation, room = self._real.truncation, None
        if truncation is not None:
            room = int(truncation["max_length"]) - len(before) - len(after)
            plain = truncation["direction"] == "right" and truncation["stride"] == 0
            if room <= 0 or not plain or truncation["strategy"] == "only_second":
                return None
        special: Special = "text" if self._real.encode_special_tokens else "parse"
        encode = partial(self.core.encode_lists, special=special, threads=_count_threads())
        try:
            rows = encode(texts)
            if self._compare > 0 and not self._agree(encode, take_sample(texts, self._compare)):
                return None
        except TokenmillError:  # the real one reports what is wrong in its own words
            return None
        return [[*before, *row[:room], *after] for row in rows]

    def _agree(self, encode: Callable[[list[str]], list[list[int]]], sample: list[str]) -> bool:
        """Compare with the real tokenizer, and return to it after a difference."""
        settings = (None, None, self._real.encode_special_tokens)
        call = partial(self._real.encode_batch_fast, sample, add_special_tokens=False)
        theirs = [encoding.ids for encoding in _encode_with(self._real, settings, call)]
        difference = find_difference(sample, encode(sample), theirs)
        if difference is not None:
            logger.error(
                "PARITY: tokenmill and Hugging Face differ, so this tokenizer continues with Hugging Face's "
                "engine. Nothing is wrong with your data; please report this: %s",
                difference,
            )
            self.__dict__.update(core=None, _compare=0)
            return False
        self.__dict__["_compare"] -= sum(len(text.encode()) for text in sample) + 1
        if self._compare <= 0:
            logger.info("Parity: tokenmill and Hugging Face gave the same ids on the first documents")
        return True

    def _pad(self, encodings: list[CoreEncoding]) -> None:
        padding = self._real.padding
        if padding is None or not encodings:
            return
        length = padding["length"]
        length = max(len(encoding.ids) for encoding in encodings) if length is None else int(length)
        length += -length % (padding["pad_to_multiple_of"] or 1)
        for encoding in encodings:
            encoding.pad(length, padding)


class CoreEncoding:
    """A row with the attributes of `tokenizers.Encoding`; the real tokenizer computes all but these."""

    __slots__ = ("_encode_batch", "_index", "attention_mask", "ids", "type_ids")
    n_sequences = 1

    def __init__(self, ids: list[int], index: int, encode_batch: Callable[[], list[Any]]) -> None:
        self.ids, self.type_ids, self.attention_mask = ids, [0] * len(ids), [1] * len(ids)
        self._index, self._encode_batch = index, encode_batch

    def pad(self, length: int, padding: dict[str, Any]) -> None:
        """Pad to a length, on the side that the options name."""
        missing = length - len(self.ids)
        fills = {"ids": padding["pad_id"], "type_ids": padding["pad_type_id"], "attention_mask": 0}
        for name, value in fills.items():
            row, fill = getattr(self, name), [value] * missing
            setattr(self, name, fill + row if padding["direction"] == "left" else row + fill)

    def __len__(self) -> int:
        return len(self.ids)

    def __getattr__(self, name: str) -> Any:
        """Return tokens, offsets, words, overflow, and the methods that map between them."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._encode_batch()[self._index], name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the real encoding, since nothing else holds the text."""
        return itemgetter(0), ((self._encode_batch()[self._index],),)


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


def _count_threads() -> int:
    """Return the number that the variables of `tokenizers` set, or the default."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        return 1
    wanted = os.environ.get("RAYON_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else default_threads()
