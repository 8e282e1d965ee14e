"""`Tokenizer.as_tiktoken()`: the methods of a `tiktoken.Encoding` over our core, without tiktoken."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.files.tiktoken import find_ranks
from tokenmill.tokenizer.recipe import find_regex
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Allowed = Literal["all"] | AbstractSet[str]
Disallowed = Literal["all"] | Collection[str]
_NONE: frozenset[str] = frozenset()
# The bytes that continue a character.
_CONTINUATION = range(0x80, 0xC0)


class TiktokenEncoding:
    """A tokenizer with tiktoken's names, arguments and errors."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = tokenizer.recipe.model
        if tokenizer.strategy.name != "native" or model is None or model.kind != "bytes":
            raise TokenizerError(
                f"{tokenizer.source}: runs as {tokenizer.strategy}; tiktoken's methods give bytes, which "
                "only byte-level BPE has; use the tokenizer itself, or as_hf()"
            )
        self._tokenizer, self._model = tokenizer, model
        self.name = tokenizer.source.removeprefix("tiktoken:")
        self._special_tokens = tokenizer.special_tokens
        self._special_token_values = set(self._special_tokens.values())
        self.max_token_value = tokenizer.vocab_size - 1

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return TiktokenEncoding, (self._tokenizer,)

    # Text to ids

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text, special tokens as ordinary text."""
        return self._encode(text, _NONE)

    def encode(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> list[int]:
        """Return the ids of a text; raise `ValueError` for special tokens that are not allowed."""
        return self._encode(text, self._allow([text], allowed_special, disallowed_special))

    def encode_to_numpy(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> NDArray[np.uint32]:
        """Return the ids of a text as an array."""
        import numpy as np

        ids = self.encode(text, allowed_special=allowed_special, disallowed_special=disallowed_special)
        return np.asarray(ids, np.uint32)

    def encode_ordinary_batch(self, text: list[str], *, num_threads: int = 8) -> list[list[int]]:
        """Return one list of ids for each text."""
        return self._encode_many(text, _NONE, num_threads)

    def encode_batch(
        self,
        text: list[str],
        *,
        num_threads: int = 8,
        allowed_special: Allowed = _NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """Return one list of ids for each text; special tokens as in `encode`."""
        return self._encode_many(text, self._allow(text, allowed_special, disallowed_special), num_threads)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Return the id of one token, special ones too; raise `KeyError` if there is none."""
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        found = self._ids.get(token)
        if found is None:
            raise KeyError(token)
        return found

    # Ids to text

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of ids; raise `KeyError` for an id that is not in the vocabulary."""
        try:
            return self._tokenizer.decode_bytes(tokens)
        except InputError as error:
            raise KeyError(str(error)) from error

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """Return the text of ids."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Return the bytes of one id; raise `KeyError` for an id that is not in the vocabulary."""
        try:
            return self._tokenizer.token_bytes(token)
        except InputError as error:
            raise KeyError(str(token)) from error

    def decode_tokens_bytes(self, tokens: Sequence[int]) -> list[bytes]:
        """Return the bytes of each id."""
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """Return the text, and the character at which each id begins (or which it continues)."""
        spelled = self.decode_tokens_bytes(tokens)
        length, offsets = 0, []
        for token in spelled:
            offsets.append(max(0, length - (token[0] in _CONTINUATION)))
            length += sum(byte not in _CONTINUATION for byte in token)
        return b"".join(spelled).decode("utf-8"), offsets

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """Return one text for each list of ids."""
        del num_threads  # decoding is faster than starting threads
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Sequence[Sequence[int]], *, num_threads: int = 8) -> list[bytes]:
        """Return the bytes of each list of ids."""
        del num_threads
        return [self.decode_bytes(tokens) for tokens in batch]

    # Properties

    def token_byte_values(self) -> list[bytes]:
        """Return the bytes of every token that is not special, sorted."""
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
        """Return True if an id is that of a special token."""
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """The largest id plus one."""
        return self.max_token_value + 1

    # tiktoken's README documents extending an encoding by these two, so they are effectively public.

    @cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        return find_ranks(self._tokenizer.recipe)

    @property
    def _pat_str(self) -> str:
        pattern = find_regex(self._tokenizer.recipe.pre_tokenizer)
        if pattern is None:
            raise TokenizerError(
                f"{self.name}: its pre-tokenizer is not a single regex; use the tokenizer itself"
            )
        return pattern

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return self._model.map_ids() | {content.encode(): i for content, i in self._special_tokens.items()}

    def _allow(self, texts: list[str], allowed: Allowed, disallowed: Disallowed) -> AbstractSet[str]:
        """Return the special tokens to parse; raise `InputError` if a text contains a forbidden one."""
        wanted = self.special_tokens_set if isinstance(allowed, str) else allowed
        refused = self.special_tokens_set - wanted if isinstance(disallowed, str) else disallowed
        if refused:
            pattern = _compile_any(frozenset(refused))
            for text in texts:
                if found := pattern.search(text):
                    token = found.group()
                    raise InputError(
                        f"the text contains the special token {token!r}, which is not allowed; pass "
                        f"allowed_special={{{token!r}}} to read it as that token, or disallowed_special=() "
                        "to read it as text"
                    )
        return frozenset(wanted) & self.special_tokens_set

    def _choose(self, allowed: AbstractSet[str]) -> Literal["parse", "text"] | None:
        """Return how the core reads special tokens, or None if only some of them are allowed."""
        if not allowed:
            return "text"
        return "parse" if allowed == self.special_tokens_set else None

    def _encode(self, text: str, allowed: AbstractSet[str]) -> list[int]:
        text = _replace_surrogates(text)
        if special := self._choose(allowed):
            return self._tokenizer.encode(text, special=special)
        ids: list[int] = []
        for place, part in enumerate(_compile_any(frozenset(allowed)).split(text)):
            # Every second part is one of the allowed tokens.
            ids += [self._special_tokens[part]] if place % 2 else self._tokenizer.encode(part, special="text")
        return ids

    def _encode_many(self, texts: list[str], allowed: AbstractSet[str], threads: int) -> list[list[int]]:
        special = self._choose(allowed)
        if special is None:
            return [self._encode(text, allowed) for text in texts]
        whole = [_replace_surrogates(text) for text in texts]
        return self._tokenizer.encode_lists(whole, special=special, threads=threads)


def _replace_surrogates(text: str) -> str:
    """Replace surrogate pairs by their character and lone ones by U+FFFD, as tiktoken does."""
    if not isinstance(text, str):
        raise TypeError(f"expected a str, found {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@lru_cache(maxsize=64)
def _compile_any(tokens: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(tokens, key=lambda token: (-len(token), token))
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})")
