"""A `tokenizers.Tokenizer` whose `encode_batch` runs on our core; all else is the real one's.

It takes the place of `_tokenizer` in an object of transformers, so everything that transformers does around
encoding (arguments, warnings, tensors, templates, files) stays its own. What the core does not do (texts that
come split into words, a template of another kind, a wrong request) the real one does, or says what is wrong.
"""

from __future__ import annotations

import json
import os
import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tokenmill.base.console import lines
from tokenmill.base.hardware.cpu import FALSE, default_threads
from tokenmill.errors import TokenmillError
from tokenmill.tokenizer.interop.hf_encoding import CoreEncoding, fill
from tokenmill.tokenizer.interop.hf_frames import Frame, read_frame
from tokenmill.tokenizer.interop.hf_truncation import UnusualError, cut_texts, pad_length
from tokenmill.tokenizer.parity import find_difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenmill.tokenizer.engines.backend import Special
    from tokenmill.tokenizer.tokenizer import Tokenizer

# What changes which ids come out; whoever touches one of them may have changed it.
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "model")
_CHANGES = frozenset({"add_tokens", "add_special_tokens", "train", "train_from_iterator", *_PARTS})
# What changes the real one as it is pickled; settings of a call are looked at instead.
_PICKLED = frozenset({"decoder", *_CHANGES})
# How many bytes are compared with the real one where the caller asked for that.
COMPARED = 1 << 18


class CoreBackend:
    """The stand-in; with `compare`, the first documents are also encoded by the real one."""

    def __init__(self, real: Any, *, compare: bool = False) -> None:
        self.__dict__.update(_real=real, _left=COMPARED if compare else 0, _compare=compare)

    def __reduce__(self) -> tuple[Any, ...]:
        """With the real one's state kept: `datasets` asks for it with every `map`, for its fingerprint."""
        settings = _Settings.read(self._real)
        kept = self.__dict__.get("_pickled")
        if kept is None or kept[0] != settings:
            kept = self.__dict__["_pickled"] = (settings, pickle.dumps(self._real))
        return _unpickle, (kept[1], self._compare)

    def __getattr__(self, name: str) -> Any:
        self._forget(name)
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._forget(name)
        setattr(self._real, name, value)

    def _forget(self, touched: str) -> None:
        """The real one may have changed: what was made of it is made anew when it is needed."""
        if touched in _PICKLED:
            self.__dict__.pop("_pickled", None)
        if touched in _CHANGES:
            self.__dict__.pop("core", None)
            self.__dict__.pop("_frame", None)

    @cached_property
    def core(self) -> Tokenizer | None:
        """Our tokenizer with the ids of the real one; None where the core does not run it."""
        from tokenmill.tokenizer.tokenizer import Tokenizer

        try:
            made = Tokenizer.load(self._real)
        except TokenmillError as error:
            lines.log_unsupported(str(error))
            return None
        if made.strategy.name != "native":
            lines.log_unsupported(made.strategy.reason)
            return None
        return made

    @cached_property
    def _frame(self) -> Frame | None:
        processor = self._real.post_processor
        return read_frame(None if processor is None else json.loads(processor.__getstate__()))

    def encode_batch(
        self,
        input: Sequence[Any],  # noqa: A002 - the name that callers use
        is_pretokenized: bool = False,  # noqa: FBT001, FBT002
        add_special_tokens: bool = True,  # noqa: FBT001, FBT002
    ) -> list[Any]:
        """One encoding for each text or pair."""
        ask = partial(
            self._real.encode_batch, is_pretokenized=is_pretokenized, add_special_tokens=add_special_tokens
        )
        texts = None if is_pretokenized else _flatten(input)
        if texts is None or self.core is None or self._frame is None:
            return list(ask(list(input)))
        try:
            rows = self._encode(texts)
            return self._build_encodings(
                input, rows, _Lazy(self._real, ask, input), specials=add_special_tokens
            )
        except (UnusualError, TokenmillError):
            return list(ask(list(input)))

    def encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,  # noqa: FBT001, FBT002
        add_special_tokens: bool = True,  # noqa: FBT001, FBT002
    ) -> Any:
        """One text or pair."""
        one = sequence if pair is None else (sequence, pair)
        if is_pretokenized:
            return self._real.encode(sequence, pair, is_pretokenized, add_special_tokens)
        return self.encode_batch([one], add_special_tokens=add_special_tokens)[0]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        core = self.core
        assert core is not None
        special: Special = "text" if self._real.encode_special_tokens else "parse"
        rows = core.encode_lists(texts, special=special, threads=_count_threads())
        if self._left > 0:
            self._compare_with_real(texts, rows)
        return rows

    def _compare_with_real(self, texts: list[str], rows: list[list[int]]) -> None:
        """Compare with the real one; after a difference the real one encodes alone, and a line says so."""
        held = 0
        sample: list[str] = []
        while held < self._left and len(sample) < len(texts):
            held += len(texts[len(sample)]) + 1
            sample.append(texts[len(sample)])
        with _Settings(None, None, self._real.encode_special_tokens).apply(self._real):
            theirs = [item.ids for item in self._real.encode_batch_fast(sample, add_special_tokens=False)]
        difference = find_difference(sample, rows[: len(sample)], theirs)
        self.__dict__["_left"] = self._left - held if difference is None else 0
        if difference is not None:
            lines.log_difference(difference)
            self.__dict__["core"] = None
            raise UnusualError
        if self._left <= 0:
            lines.log_agreement()

    def _build_encodings(
        self, inputs: Sequence[Any], rows: list[list[int]], lazy: _Lazy, *, specials: bool
    ) -> list[CoreEncoding]:
        frame, truncation = self._frame, self._real.truncation
        assert frame is not None
        made, place = [], 0
        for index, one in enumerate(inputs):
            pair = not isinstance(one, str)
            texts = rows[place : place + 1 + pair]
            place += 1 + pair
            parts = frame.list_parts(pair=pair, specials=specials)
            if truncation is None:
                cuts = [[(0, len(ids))] for ids in texts]
            else:
                room = truncation["max_length"] - (frame.count_added(pair=pair) if specials else 0)
                cuts = cut_texts(len(texts[0]), len(texts[1]) if pair else None, room, truncation)
            filled = fill(parts, texts, cuts)
            ask = partial(lazy.get, index)
            encoding = CoreEncoding(filled[0], ask, 1 + pair)
            encoding.overflowing = [
                CoreEncoding(row, partial(lazy.get, index, further), 1 + pair)
                for further, row in enumerate(filled[1:])
            ]
            made.append(encoding)
        self._pad(made)
        return made

    def _pad(self, encodings: list[CoreEncoding]) -> None:
        padding = self._real.padding
        if padding is None or not encodings:
            return
        length = pad_length(max(len(encoding) for encoding in encodings), padding)
        for encoding in encodings:
            for row in (encoding, *encoding.overflowing):
                row.pad(length, padding)


def _unpickle(real: bytes, compare: bool) -> CoreBackend:  # noqa: FBT001 - pickle gives it by place
    return CoreBackend(pickle.loads(real), compare=compare)  # noqa: S301 - our own bytes, inside a pickle


@dataclass(frozen=True)
class _Settings:
    """What a call of transformers sets in the real one before it encodes."""

    truncation: dict[str, Any] | None
    padding: dict[str, Any] | None
    encode_special_tokens: bool

    @classmethod
    def read(cls, real: Any) -> _Settings:
        return cls(real.truncation, real.padding, real.encode_special_tokens)

    def write(self, real: Any) -> None:
        real.no_truncation() if self.truncation is None else real.enable_truncation(**self.truncation)
        real.no_padding() if self.padding is None else real.enable_padding(**self.padding)
        real.encode_special_tokens = self.encode_special_tokens

    @contextmanager
    def apply(self, real: Any) -> Iterator[None]:
        """Within this block."""
        before = _Settings.read(real)
        self.write(real)
        try:
            yield
        finally:
            before.write(real)


class _Lazy:
    """The real encodings of a batch, made when somebody reads what the core does not keep."""

    def __init__(self, real: Any, ask: Any, inputs: Sequence[Any]) -> None:
        self._real, self._ask, self._inputs = real, ask, inputs
        self._settings = _Settings.read(real)
        self._made: list[Any] | None = None

    def get(self, index: int, further: int | None = None) -> Any:
        if self._made is None:
            with self._settings.apply(self._real):
                self._made = self._ask(list(self._inputs))
        encoding = self._made[index]
        return encoding if further is None else encoding.overflowing[further]


def _flatten(inputs: Sequence[Any]) -> list[str] | None:
    """The texts of all inputs, one or two of each; None where one of them is of another kind."""
    texts: list[str] = []
    for one in inputs:
        if isinstance(one, str):
            texts.append(one)
        elif (
            isinstance(one, (tuple, list))
            and len(one) == 2
            and isinstance(one[0], str)
            and isinstance(one[1], str)
        ):
            texts.extend(one)
        else:
            return None
    return texts


def _count_threads() -> int:
    """As many as the variables of `tokenizers` say."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in FALSE:
        return 1
    wanted = os.environ.get("RAYON_NUM_THREADS", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else default_threads()
