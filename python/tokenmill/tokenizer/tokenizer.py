"""`Tokenizer`: one class over every vocabulary format and every engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InputError, TokenizerError
from tokenmill.tokenizer.engines.backend import (
    Engine,
    Special,
    Strategy,
    StrategyOption,
    TokenBatch,
    build,
    check_text,
)
from tokenmill.tokenizer.recipe import Recipe, Role, find_role_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.settings.schema import SaveFormat
    from tokenmill.tokenizer.interop.tiktoken import TiktokenEncoding


class Tokenizer:
    """Text to ids and back. Immutable, picklable, and safe to use in threads, after fork and under spawn.

    >>> import tokenmill
    >>> tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False).save("my-tokenizer")
    >>> tokenizer = tokenmill.Tokenizer.load("my-tokenizer")
    >>> tokenizer.encode("low lower")
    [258, 260, 82]
    >>> tokenizer.decode([258, 260, 82])
    'low lower'
    """

    recipe: Recipe
    """The plain data from which this tokenizer was built."""
    strategy: Strategy
    """The engine that encodes, and the reason."""
    engine: Engine
    """The engine object, with methods that the pipeline uses."""
    _num_proc: int | None

    def __init__(
        self, recipe: Recipe, strategy: StrategyOption = "auto", num_proc: int | None = None
    ) -> None:
        engine, chosen = build(recipe, strategy, num_proc)
        self.__dict__.update(recipe=recipe, strategy=chosen, engine=engine, _num_proc=num_proc)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tokenizer is immutable; cannot set {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.recipe, self.strategy.name, self._num_proc)

    def __repr__(self) -> str:
        return f"Tokenizer({self.source!r}, {self.vocab_size} tokens, {self.strategy})"

    @classmethod
    def load(
        cls,
        source: str | Path | Any,
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        strategy: StrategyOption = "auto",
        num_proc: int | None = None,
    ) -> Tokenizer:
        """Return a tokenizer from a file, a directory, a name or an object of another library.

        Args:
            source: A path, a known encoding's name, a hub id, or an object of transformers, tokenizers or
                tiktoken; any other object with `encode` or `__call__` is a Python tokenizer.
            pattern: Where texts are cut, for a file that does not say: a family such as "cl100k", or a regex.
            special_tokens: Strings and their ids, added to what the file has.
            strategy: The engine; "auto" takes the fastest that gives the same ids.
            num_proc: Worker processes of a Python tokenizer.

        Returns:
            The tokenizer; `strategy` says which engine runs, and why.

        Raises:
            TokenizerNotFoundError: There is no such file and no such name.
            TokenizerError: The file is damaged, or of a kind that nothing here can run.
        """
        from tokenmill.tokenizer.files.kinds import load_recipe

        return cls(load_recipe(source, pattern=pattern, special_tokens=special_tokens), strategy, num_proc)

    def with_strategy(self, strategy: StrategyOption) -> Tokenizer:
        """Return the same tokenizer on another engine, e.g. to compare `native` with `huggingface`."""
        return type(self)(self.recipe, strategy, self._num_proc)

    # Properties

    @property
    def is_fast(self) -> bool:
        """True unless the engine is `python`; the name follows transformers."""
        return self.strategy.name != "python"

    @property
    def source(self) -> str:
        """The path or name that it was loaded from."""
        return self.recipe.source

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that determines ids, without names and paths."""
        return self.recipe.fingerprint()

    @property
    def family(self) -> str:
        """The scanner's name (`gpt2`, `cl100k`, …), `chain`, `sentencepiece`, or the model's type."""
        return self.engine.family

    @property
    def vocab_size(self) -> int:
        """The largest id plus one: the number of embedding rows."""
        return self.engine.id_limit

    @property
    def special_tokens(self) -> dict[str, int]:
        """Every special token and its id, by id."""
        tokens = sorted(self.recipe.added, key=lambda token: token.id)
        return {token.content: token.id for token in tokens if token.special}

    @property
    def added_tokens(self) -> dict[str, int]:
        """Every added token, special or not, and its id."""
        return {token.content: token.id for token in sorted(self.recipe.added, key=lambda token: token.id)}

    def special_id(self, role: Role) -> int | None:
        """Return the id of a role in the config files, else that of a usual name such as `</s>`, or None."""
        return find_role_id(self.recipe, role)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one token: `b" th"`. Raise `InputError` for an unknown id."""
        found = self.engine.token_bytes(token_id) if 0 <= token_id < 1 << 32 else None
        if found is None:
            raise InputError(f"id {token_id} is not in the vocabulary of {self.source}")
        return found

    def id_of(self, token: bytes | str) -> int | None:
        """Return the id of a token's bytes, or None: `id_of(b" the")`."""
        data = check_text(token, 0).encode() if isinstance(token, str) else token
        # Added tokens first, since they are found first.
        added = (each.id for each in self.recipe.added if each.content.encode() == data)
        return next(added, self.engine.id_of(data))

    # Text to ids

    def encode(
        self, text: str | bytes, *, special: Special = "parse", add_special_tokens: bool = False
    ) -> list[int]:
        """Return the ids of one text: `encode("hello world")` -> `[31373, 995]`.

        Args:
            text: A string, or its UTF-8.
            special: How to treat the string of a special token: as the token ("parse"), ordinary text
                ("text"), or an error ("forbid").
            add_special_tokens: Add what the tokenizer's template adds (BOS, EOS…).

        Returns:
            The ids, those of the tokenizer's own library.

        Raises:
            InputError: The bytes are not UTF-8, or the text contains a special token that is forbidden.
        """
        return self.engine.encode(text, special, template=add_special_tokens)

    def encode_batch(
        self,
        texts: Sequence[str | bytes] | Any,
        *,
        special: Special = "parse",
        add_special_tokens: bool = False,
        threads: int | None = None,
    ) -> TokenBatch:
        """Return the ids of many texts in one flat array.

        Args:
            texts: A list of str or bytes, or a pyarrow array of them (large, view, chunked: no copy).
            special: As in `encode`.
            add_special_tokens: As in `encode`.
            threads: The maximum number of threads. Default: all cores of this process.

        Returns:
            Flat ids and offsets; `to_lists` and `to_arrow` turn them into what others expect.

        Raises:
            InputError: A text cannot be encoded; the message says which.
        """
        _refuse_one_text(texts)
        ids, offsets = self.engine.encode_batch(
            texts, special, template=add_special_tokens, threads=resolve_threads(threads)
        )
        return TokenBatch(ids, offsets)

    def encode_lists(
        self,
        texts: list[str],
        *,
        special: Special = "parse",
        add_special_tokens: bool = False,
        threads: int | None = None,
    ) -> list[list[int]]:
        """Return `encode_batch(texts).to_lists()`, without the arrays."""
        _refuse_one_text(texts)
        return self.engine.encode_lists(
            list(texts), special, template=add_special_tokens, threads=resolve_threads(threads)
        )

    def encode_iterable(self, texts: Iterable[str], *, special: Special = "parse") -> Iterator[int]:
        """Return the ids of the text that the parts make together, in bounded memory.

        `list(tok.encode_iterable(open(path)))` equals `tok.encode(open(path).read())`.
        """
        return self.engine.encode_stream(texts, special)

    def count(
        self, text: str | bytes, *, special: Special = "parse", add_special_tokens: bool = False
    ) -> int:
        """Return the number of ids of a text, with the arguments and errors of `encode`."""
        return int(self.count_batch([text], special=special, add_special_tokens=add_special_tokens)[0])

    def count_batch(
        self,
        texts: Sequence[str | bytes] | Any,
        *,
        special: Special = "parse",
        add_special_tokens: bool = False,
        threads: int | None = None,
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the number of ids of each text, with the arguments and errors of `encode_batch`."""
        _refuse_one_text(texts)
        return self.engine.count_batch(
            texts, special, template=add_special_tokens, threads=resolve_threads(threads)
        )

    def offsets(
        self, text: str, *, special: Special = "parse", add_special_tokens: bool = False
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return ids and the characters that each covers: `"hi all"` -> `([5303, 477], [(0, 2), (2, 6)])`."""
        return self.engine.offsets(text, special, template=add_special_tokens)

    # Ids to text

    def decode(
        self, ids: Sequence[int] | NDArray[Any], *, skip_special_tokens: bool = False, errors: str = "replace"
    ) -> str:
        """Return the text of ids: `decode([31373, 995])` -> `"hello world"`.

        Args:
            ids: A list or an array.
            skip_special_tokens: Omit special tokens.
            errors: As in `bytes.decode`, for ids that end inside a character.

        Returns:
            The text.

        Raises:
            InputError: An id is not in the vocabulary.
        """
        return self.engine.decode_text(ids, errors, skip_special=skip_special_tokens)

    def decode_bytes(self, ids: Sequence[int] | NDArray[Any]) -> bytes:
        """Return the exact bytes of the ids. Raise `InputError` for an unknown id."""
        return self.engine.decode(ids, skip_special=False)

    def decode_batch(
        self,
        batch: TokenBatch | Iterable[Sequence[int]],
        *,
        skip_special_tokens: bool = False,
        errors: str = "replace",
    ) -> list[str]:
        """Return one text for each document; raise `InputError` for unknown ids."""
        if isinstance(batch, TokenBatch) and not skip_special_tokens:
            texts = self.engine.decode_texts(batch.ids, batch.offsets, errors)
            if texts is not None:
                return texts
        return [self.decode(ids, skip_special_tokens=skip_special_tokens, errors=errors) for ids in batch]

    # As an object of another library

    def as_hf(self, **options: Any) -> Any:
        """Return a tokenizer of transformers with our core inside, for code that expects one.

        What transformers does around encoding (truncation, padding, tensors, chat templates, files) is its
        own code; only the ids come from here. What our core does not do, its own engine does.

        Args:
            options: What `from_pretrained` takes, e.g. `model_max_length=2048` or `padding_side="left"`.

        Returns:
            A `PreTrainedTokenizerFast`.

        Raises:
            MissingExtraError: transformers is not installed.
            TokenizerError: No `tokenizer.json` can hold this tokenizer.

        Example:
            >>> import tokenmill
            >>> tokenizer = tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False)
            >>> tokenizer.as_hf()("low lower")["input_ids"]
            [258, 260, 82]
        """
        from tokenmill.tokenizer.interop.hf import to_hf

        return to_hf(self, **options)

    def as_tiktoken(self) -> TiktokenEncoding:
        """Return the tokenizer with the methods of a `tiktoken.Encoding`, without that package.

        Returns:
            An object with `encode(text, allowed_special=…, disallowed_special=…)`, `encode_batch`,
            `encode_to_numpy`, `decode_with_offsets` and the other public methods but `encode_with_unstable`.

        Raises:
            TokenizerError: It is not a byte-level BPE, so its tokens are not bytes.

        Example:
            >>> import tokenmill
            >>> tokenizer = tokenmill.train_from_iterator(["low lower lowest"] * 9, 261, progress=False)
            >>> tokenizer.as_tiktoken().decode_with_offsets([258, 260, 82])
            ('low lower', [0, 3, 8])
        """
        from tokenmill.tokenizer.interop.tiktoken import TiktokenEncoding

        return TiktokenEncoding(self)

    # To files

    def save(self, path: str | Path, format: SaveFormat = "hf") -> None:  # noqa: A002 - the public name
        """Write the tokenizer to files that give the same ids when they are loaded.

        Args:
            path: A directory for "hf" and "vocab-merges", else a file.
            format: "hf" (tokenizer.json), "tiktoken", "vocab-merges" (vocab.json, merges.txt) or "minbpe".

        Raises:
            TokenizerError: The format cannot hold this tokenizer, or the files cannot be written.
        """
        from tokenmill.tokenizer.files.kinds import save

        save(self.recipe, path, format)


def _refuse_one_text(texts: object) -> None:
    # A dict would give its keys, and the texts of a set have no order.
    if isinstance(texts, (str, bytes, dict, set, frozenset)):
        found = "one text; use encode(text)" if isinstance(texts, (str, bytes)) else type(texts).__name__
        raise TypeError(f"expected a list of texts or an Arrow array, found {found}")


def resolve_threads(threads: int | None) -> int:
    """Return the caller's number, or the number of cores of this process."""
    if threads is None:
        from tokenmill.base.machine import default_threads

        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise TokenizerError(f"threads={threads!r}; expected an integer of at least 1, or None for automatic")
    return threads
