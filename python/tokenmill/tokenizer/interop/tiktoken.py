"""`Tokenizer.as_tiktoken()`: the methods of a `tiktoken.Encoding` over our core, without tiktoken."""

from __future__ import annotations

import re
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.interop.tiktoken_pieces import complete, encode_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.tokenizer.tokenizer import Tokenizer

Allowed = Literal["all"] | AbstractSet[str]
Disallowed = Literal["all"] | Collection[str]
_NONE: frozenset[str] = frozenset()


class TiktokenEncoding:
    """A tokenizer with tiktoken's names, arguments and errors."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.recipe.model
        if tokenizer.strategy.name != "native" or model is None or model.kind != "bytes":
            raise TokenizerError(
                f"{tokenizer.source}: runs as {tokenizer.strategy}; tiktoken's methods give bytes, which "
                "only byte-level BPE has; use the tokenizer itself, or as_hf()"
            )
        self._tokenizer = tokenizer
        self.name = tokenizer.source
        self._special_tokens = tokenizer.special_tokens
        self._special_token_values = set(self._special_tokens.values())
        self.max_token_value = tokenizer.vocab_size - 1

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._tokenizer,)

    # Text to ids

    def encode_ordinary(self, text: str) -> list[int]:
        """Ids of a text in which special tokens are ordinary text."""
        return self._encode(text, _NONE)

    def encode(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> list[int]:
        """Ids of a text; a special token that is not allowed is a `ValueError`, unless that is turned off."""
        return self._encode(text, self._allow([text], allowed_special, disallowed_special))

    def encode_to_numpy(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> NDArray[np.uint32]:
        """The same as an array."""
        import numpy as np

        allowed = self._allow([text], allowed_special, disallowed_special)
        if allowed and allowed != self.special_tokens_set:
            return np.asarray(self._encode(text, allowed), np.uint32)
        special: Literal["parse", "text"] = "parse" if allowed else "text"
        ids = self._tokenizer.encode_batch([_replace_surrogates(text)], special=special, threads=1).ids
        return ids.astype(np.uint32, copy=False)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """One list of ids for each text."""
        return self._encode_many(text, _NONE, num_threads)

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Allowed = _NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """One list of ids for each text; special tokens as in `encode`."""
        return self._encode_many(text, self._allow(text, allowed_special, disallowed_special), num_threads)

    def encode_with_unstable(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """The ids that more text cannot change, and what the rest may become."""
        allowed = self._allow([text], allowed_special, disallowed_special)
        parts = _split(_replace_surrogates(text), allowed)
        ids = [token for part in parts for token in self._encode_part(part, allowed)]
        last = parts[-1] if parts and parts[-1] not in allowed else ""
        return complete(self._tokenizer, ids, last)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of one token, special ones too; a `KeyError` if there is none."""
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        found = self._ids.get(token)
        if found is None:
            raise KeyError(token)
        return found

    # Ids to text

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of ids; a `KeyError` for an id that is not in the vocabulary."""
        try:
            return self._tokenizer.decode_bytes(tokens)
        except InputError as error:
            raise KeyError(str(error)) from error

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of ids."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """What one id spells; a `KeyError` for an id that is not in the vocabulary."""
        try:
            return self._tokenizer.token_bytes(token)
        except InputError as error:
            raise KeyError(str(token)) from error

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """What each id spells."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """The text, and the character at which each id begins (or which it continues)."""
        spelled = self.decode_tokens_bytes(tokens)
        length, offsets = 0, []
        for token in spelled:
            offsets.append(max(0, length - _goes_on(token[0])))
            length += sum(not _goes_on(byte) for byte in token)
        return b"".join(spelled).decode("utf-8"), offsets

    def decode_batch(
        self,
        batch: Sequence[Sequence[int]],
        *,
        errors: str = "replace",
        num_threads: int = 8,  # noqa: ARG002 - decoding is quicker than starting threads
    ) -> list[str]:
        """One text for each list of ids."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(
        self,
        batch: Sequence[Sequence[int]],
        *,
        num_threads: int = 8,  # noqa: ARG002
    ) -> list[bytes]:
        """The bytes of each list of ids."""
        return [self.decode_bytes(tokens) for tokens in batch]

    # What it is

    def token_byte_values(self) -> list[bytes]:
        """The bytes of every token that is not special, sorted."""
        return sorted(
            token for token, token_id in self._ids.items() if token_id not in self._special_token_values
        )

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`."""
        return self._special_tokens["<|endoftext|>"]

    @cached_property
    def special_tokens_set(self) -> set[str]:
        """The strings that mean one token."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether an id is that of a special token."""
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """The largest id plus one."""
        return self.max_token_value + 1

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        model = self._tokenizer.recipe.model
        assert model is not None
        return model.map_ids() | {content.encode(): i for content, i in self._special_tokens.items()}

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """Ids of bytes that no pattern cuts."""
        data = text_or_bytes.encode() if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        return encode_piece(self._tokenizer, data)

    def _encode_bytes(self, text: bytes) -> list[int]:
        """Ids of bytes; what is not UTF-8 at their end joins the last piece of what is."""
        try:
            return self._encode(text.decode(), _NONE)
        except UnicodeDecodeError as error:
            ids = self._encode(text[: error.start].decode(), _NONE)
            stable, _ = complete(self._tokenizer, ids, text[: error.start].decode(), completions=False)
            rest = text[len(self.decode_bytes(stable)) :]
            return stable + encode_piece(self._tokenizer, rest)

    def _allow(self, texts: list[str], allowed: Allowed, disallowed: Disallowed) -> AbstractSet[str]:
        """The special tokens to read as tokens; raises `InputError` if a text contains a forbidden one."""
        wanted = self.special_tokens_set if isinstance(allowed, str) else allowed
        refused = self.special_tokens_set - wanted if isinstance(disallowed, str) else disallowed
        if refused:
            pattern = _compile_any(frozenset(refused))
            for text in texts:
                if found := pattern.search(text):
                    raise InputError(_explain_refusal(found.group()))
        return frozenset(wanted) & self.special_tokens_set

    def _encode(self, text: str, allowed: AbstractSet[str]) -> list[int]:
        text = _replace_surrogates(text)
        if not allowed:
            return self._tokenizer.encode(text, special="text")
        if allowed == self.special_tokens_set:
            return self._tokenizer.encode(text)
        return [token for part in _split(text, allowed) for token in self._encode_part(part, allowed)]

    def _encode_part(self, part: str, allowed: AbstractSet[str]) -> list[int]:
        if part in allowed:
            return [self._special_tokens[part]]
        return self._tokenizer.encode(part, special="text")

    def _encode_many(self, texts: list[str], allowed: AbstractSet[str], threads: int) -> list[list[int]]:
        if allowed and allowed != self.special_tokens_set:
            return [self._encode(text, allowed) for text in texts]
        whole = [_replace_surrogates(text) for text in texts]
        return self._tokenizer.encode_lists(whole, special="parse" if allowed else "text", threads=threads)


def _replace_surrogates(text: str) -> str:
    """Surrogate pairs become their character, lone ones U+FFFD, as tiktoken has it."""
    if not isinstance(text, str):
        raise TypeError(f"expected a str, found {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _split(text: str, allowed: AbstractSet[str]) -> list[str]:
    """The text at its allowed special tokens, which are parts of their own."""
    if not allowed:
        return [text] if text else []
    return [part for part in re.split(f"({_compile_any(frozenset(allowed)).pattern})", text) if part]


@lru_cache(maxsize=64)
def _compile_any(tokens: frozenset[str]) -> re.Pattern[str]:
    return re.compile(
        "|".join(re.escape(token) for token in sorted(tokens, key=lambda token: (-len(token), token)))
    )


def _goes_on(byte: int) -> bool:
    """Whether a byte continues a character."""
    return 0x80 <= byte < 0xC0


def _explain_refusal(token: str) -> str:
    return (
        f"the text holds the special token {token!r}, which is not allowed; pass "
        f"allowed_special={{{token!r}}} to read it as that token, or disallowed_special=() to read it as text"
    )
