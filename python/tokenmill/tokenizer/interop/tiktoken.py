"""`Tokenizer.as_tiktoken()`: the methods of a `tiktoken.Encoding` over our core, without tiktoken."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.files.tiktoken import find_ranks
from tokenmill.tokenizer.recipe import find_regex

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
        self._tokenizer, self._model = tokenizer, model
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

        allowed = self._allow([text], allowed_special, disallowed_special)
        if allowed and allowed != self.special_tokens_set:
            return np.asarray(self._encode(text, allowed), np.uint32)
        special: Literal["parse", "text"] = "parse" if allowed else "text"
        ids = self._tokenizer.encode_batch([_replace_surrogates(text)], special=special, threads=1).ids
        return ids.astype(np.uint32, copy=False)

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

    def encode_with_unstable(
        self, text: str, *, allowed_special: Allowed = _NONE, disallowed_special: Disallowed = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Return the ids that more text cannot change, and the ways in which the rest may be encoded."""
        allowed = self._allow([text], allowed_special, disallowed_special)
        parts = _split(_replace_surrogates(text), allowed)
        ids = [token for part in parts for token in self._encode_part(part, allowed)]
        last = parts[-1] if parts and parts[-1] not in allowed else ""
        loose = self._count_unstable(ids, last)
        if not loose:
            return ids, []
        stable, unstable = ids[:-loose], self.decode_bytes(ids[-loose:])
        ways: set[tuple[int, ...]] = {(self._ids[token],) for token in self._search_prefix(unstable)}
        for cut in range(1, len(unstable)):
            for token in self._search_prefix(unstable[cut:]):
                again = self._encode_bytes_or_piece(unstable[:cut] + token)
                ways.add(self._cut_at(again, len(unstable)))
        # More text may separate a blank at the end from what is before it.
        blank = unstable.decode(errors="replace")[-1:]
        head = unstable[: len(unstable) - len(blank.encode())]
        if head and blank.isspace():
            ways.add((*self._encode_single_piece(head), *self._encode_single_piece(blank)))
        return stable, [list(way) for way in ways]

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
            offsets.append(max(0, length - _goes_on(token[0])))
            length += sum(not _goes_on(byte) for byte in token)
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

    # What it is

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

    # tiktoken's readme tells users to extend an encoding by these two, so they are as good as public.

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
        return self._ordinary | {content.encode(): i for content, i in self._special_tokens.items()}

    @cached_property
    def _ordinary(self) -> dict[bytes, int]:
        return self._model.map_ids()

    @cached_property
    def _sorted_tokens(self) -> list[bytes]:
        return sorted(self._ordinary)

    @cached_property
    def _ranks(self) -> dict[tuple[bytes, bytes] | bytes, int]:
        """The rank of each merge by its pair, or by the token that it makes if there are only ranks."""
        tokens, merges = self._model.tokens, self._model.merges
        if merges is None:
            return {tokens[i] or b"": rank for rank, i in enumerate(self._model.rank_order)}
        return {(tokens[a] or b"", tokens[b] or b""): rank for rank, (a, b) in enumerate(merges)}

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """Return the ids of bytes that are one piece, by merging the pair of lowest rank."""
        data = text_or_bytes.encode() if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        by_token = self._model.merges is None
        if data in self._ordinary and (by_token or self._model.ignore_merges):
            return [self._ordinary[data]]
        parts = [data[i : i + 1] for i in range(len(data))]
        while len(parts) > 1:
            pairs = pairwise(parts)
            ranks = [self._ranks.get(left + right if by_token else (left, right)) for left, right in pairs]
            best = min((rank for rank in ranks if rank is not None), default=None)
            if best is None:
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self._ordinary[part] for part in parts]

    def _encode_bytes(self, text: bytes) -> list[int]:
        """Return the ids of bytes; invalid UTF-8 at the end joins the last piece before it."""
        try:
            return self._encode(text.decode(), _NONE)
        except UnicodeDecodeError as error:
            valid = text[: error.start].decode()
            ids = self._encode(valid, _NONE)
            stable = ids[: len(ids) - self._count_unstable(ids, valid)]
            return stable + self._encode_single_piece(text[len(self.decode_bytes(stable)) :])

    def _encode_bytes_or_piece(self, data: bytes) -> list[int]:
        try:
            return self._tokenizer.encode(data.decode(), special="text")
        except UnicodeDecodeError:
            return self._encode_single_piece(data)

    def _count_unstable(self, ids: list[int], last: str) -> int:
        """Return how many ids belong to the last piece, and to the blanks before it if it is blank."""
        if not last:
            return 0
        ends = self._tokenizer.engine.piece_ends(last, "text") or [0]
        begin = ends[-2] if len(ends) > 1 else 0
        loose = len(self.encode_ordinary(last)) - len(self.encode_ordinary(last.encode()[:begin].decode()))

        def is_blank(index: int) -> bool:
            return not self.decode_single_token_bytes(ids[index]).strip(b" \n\t")

        if loose and is_blank(len(ids) - loose):
            while loose < len(ids) and is_blank(len(ids) - loose - 1):
                loose += 1
        return loose

    def _cut_at(self, ids: list[int], length: int) -> tuple[int, ...]:
        """Return the first ids that cover `length` bytes."""
        covered = 0
        for index, token in enumerate(ids):
            covered += len(self.decode_single_token_bytes(token))
            if covered >= length:
                return tuple(ids[: index + 1])
        return tuple(ids)

    def _search_prefix(self, prefix: bytes) -> list[bytes]:
        """Return the tokens that begin with `prefix`."""
        first = last = bisect_left(self._sorted_tokens, prefix)
        while last < len(self._sorted_tokens) and self._sorted_tokens[last].startswith(prefix):
            last += 1
        return self._sorted_tokens[first:last]

    def _allow(self, texts: list[str], allowed: Allowed, disallowed: Disallowed) -> AbstractSet[str]:
        """Return the special tokens to parse; raise `InputError` if a text contains a forbidden one."""
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
    """Replace surrogate pairs by their character and lone ones by U+FFFD, as tiktoken does."""
    if not isinstance(text, str):
        raise TypeError(f"expected a str, found {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _split(text: str, allowed: AbstractSet[str]) -> list[str]:
    """Split the text at its allowed special tokens, which are parts too."""
    if not allowed:
        return [text] if text else []
    return [part for part in re.split(f"({_compile_any(frozenset(allowed)).pattern})", text) if part]


@lru_cache(maxsize=64)
def _compile_any(tokens: frozenset[str]) -> re.Pattern[str]:
    return re.compile(
        "|".join(re.escape(token) for token in sorted(tokens, key=lambda token: (-len(token), token)))
    )


def _goes_on(byte: int) -> bool:
    """Return True if a byte continues a character."""
    return 0x80 <= byte < 0xC0


def _explain_refusal(token: str) -> str:
    return (
        f"the text holds the special token {token!r}, which is not allowed; pass "
        f"allowed_special={{{token!r}}} to read it as that token, or disallowed_special=() to read it as text"
    )
