"""Somebody else's Python tokenizer: a transformers object, or any class with `encode` or `__call__`.

One small adapter asks for ids in the way that the object understands, so that the worker processes need to
know nothing about whose tokenizer it is.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tokenmill.tokenizer.engines.backend import Special

# Where an object does not say how many ids it has; the largest that any vocabulary of ours may have.
UNKNOWN_LIMIT = 1 << 24
# Encoded once for the fingerprint: letters, digits, spaces, three scripts and an emoji.
PROBE = "Hello, world!  It's 2026 and\tcode_like(x) == 10;\n안녕하세요 你好世界 こんにちは 🙂"


def is_foreign(tokenizer: Any) -> bool:
    """Whether the object can be asked for ids at all."""
    return not isinstance(tokenizer, str | bytes) and (
        callable(tokenizer) or callable(getattr(tokenizer, "encode", None))
    )


class Foreign:
    """Asks `tokenizer` for ids; picklable when the tokenizer is."""

    def __init__(self, tokenizer: Any) -> None:
        if not is_foreign(tokenizer):
            raise TokenizerError(
                f"{type(tokenizer).__name__} has neither encode(text) nor __call__(text); "
                "define one of them, and return a list of token ids"
            )
        self.tokenizer = tokenizer
        # transformers' objects take batches and switches by `__call__`; others are asked one text at a time.
        self._transformers = hasattr(tokenizer, "convert_ids_to_tokens") and callable(tokenizer)
        ask: Callable[..., Any] = getattr(tokenizer, "encode", None) or tokenizer
        self._encode = ask
        self._switches = set() if self._transformers else _list_parameters(ask)

    def __reduce__(self) -> tuple[type[Foreign], tuple[Any]]:
        return Foreign, (self.tokenizer,)

    def encode_many(self, texts: Sequence[str], special: Special, *, template: bool) -> list[list[int]]:
        """`encode_many(["a b"], "text", template=False)` -> `[[64, 275]]`."""
        if special == "forbid":
            for text in texts:
                self._refuse_special(text)
        if self._transformers:
            return self._ask_transformers(list(texts), special, template=template)
        switches: dict[str, Any] = {}
        if "add_special_tokens" in self._switches:
            switches["add_special_tokens"] = template
        if "split_special_tokens" in self._switches:
            switches["split_special_tokens"] = special != "parse"
        return [_to_ids(self._encode(text, **switches)) for text in texts]

    def _ask_transformers(self, texts: list[str], special: Special, *, template: bool) -> list[list[int]]:
        found = self.tokenizer(
            texts,
            add_special_tokens=template,
            split_special_tokens=special != "parse",
            return_attention_mask=False,
            return_token_type_ids=False,
            # A document longer than the model's window is not a mistake here.
            verbose=False,
        )
        return [_to_ids(ids) for ids in found["input_ids"]]

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> bytes:
        """The bytes of the tokenizer's own decoding."""
        decode = getattr(self.tokenizer, "decode", None)
        if decode is None:
            raise TokenizerError(
                f"{type(self.tokenizer).__name__} has no decode(ids), so its ids cannot be decoded; define it"
            )
        accepted = _list_parameters(decode)
        switches = {
            name: value
            for name, value in (
                ("skip_special_tokens", skip_special),
                ("clean_up_tokenization_spaces", False),
            )
            if name in accepted
        }
        text = decode(list(ids), **switches)
        return text if isinstance(text, bytes) else str(text).encode()

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The strings that mean a single token."""
        return tuple(str(token) for token in getattr(self.tokenizer, "all_special_tokens", None) or ())

    @property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id; empty where the object does not say."""
        ask = getattr(self.tokenizer, "get_vocab", None)
        return dict(ask()) if callable(ask) else {}

    @property
    def id_limit(self) -> int:
        """Ids are below this: from the vocabulary, or from the size that the object reports."""
        limit = 1 + max(self.vocabulary.values(), default=-1)
        for ask in (len, lambda it: it.vocab_size, lambda it: it.n_vocab):
            try:
                limit = max(limit, int(ask(self.tokenizer)))
            except (TypeError, AttributeError, ValueError):
                continue
        return limit or UNKNOWN_LIMIT

    def find_token(self, token_id: int) -> str | None:
        """The string of one id, or None where the object does not say."""
        ask = getattr(self.tokenizer, "convert_ids_to_tokens", None)
        found = ask(token_id) if callable(ask) else None
        return found if isinstance(found, str) else None

    def fingerprint(self) -> str:
        """A hash that changes when the ids would: of the class, any known vocabulary, and a probe's ids."""
        kind = type(self.tokenizer)
        facts = [
            f"{kind.__module__}.{kind.__qualname__}",
            sorted(self.vocabulary.items()),
            self.special_tokens,
            self.encode_many([PROBE], "text", template=True),
        ]
        whole = getattr(self.tokenizer, "identity", None)
        if isinstance(whole, bytes):
            # A file that decides all of it.
            facts.append(hashlib.sha256(whole).hexdigest())
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()

    def _refuse_special(self, text: str) -> None:
        for token in self.special_tokens:
            if token and token in text:
                place = text.index(token)
                raise TokenizerError(
                    f"a document contains the special token {token!r} at character {place}; "
                    "use special: text to read it as text, or special: parse to read it as the token"
                )


def _list_parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def _to_ids(found: Any) -> list[int]:
    """A list of ints from what came back: a list, an array, `{"input_ids": ...}`, an object with `.ids`."""
    if hasattr(found, "keys") and "input_ids" in found:
        found = found["input_ids"]
    elif hasattr(found, "input_ids"):
        found = found.input_ids
    elif hasattr(found, "ids"):
        found = found.ids
    if hasattr(found, "tolist"):
        found = found.tolist()
    try:
        found = [*found]
    except TypeError:
        raise TokenizerError(f"the tokenizer returned {found!r}; expected a list of token ids") from None
    if found and isinstance(found[0], list | tuple):
        found = [token for row in found for token in row]
    if any(not isinstance(token, int) or isinstance(token, bool) or token < 0 for token in found):
        raise TokenizerError(
            f"the tokenizer returned {found[:5]!r}; expected a list of token ids (whole numbers)"
        )
    return list(map(int, found))
