"""The classes of minbpe on this engine: Basic-, Regex-, GPT4- and `OptimizedRegexTokenizer`.

Ids are minbpe's: the 256 bytes in order, then one id per merge. So are the merges: of two pairs with
equal counts, the one that occurs first in the text, as merged so far, is merged first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tokenmill.base.machine import measure
from tokenmill.errors import ConfigError
from tokenmill.settings.resolve import resolve
from tokenmill.tokenizer.engines.backend import Special
from tokenmill.tokenizer.files.plain import load_minbpe, save_minbpe
from tokenmill.tokenizer.recipe import (
    AddedToken,
    Recipe,
    build_byte_model,
    make_byte_level,
    make_regex_pre_tokenizer,
)
from tokenmill.tokenizer.tokenizer import Tokenizer as Engine
from tokenmill.training.merging import FIRST_SEEN, format_vocabulary, train_merges

GPT2_SPLIT_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
GPT4_SPLIT_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s+"""
)
# The whole text is one piece, line ends included.
_EVERYTHING = r"(?s:.+)"

AllowedSpecial = Literal["all", "none", "none_raise"] | set[str]
_SPECIAL: dict[Any, Special] = {"all": "parse", "none": "text", "none_raise": "forbid"}


class RegexTokenizer:
    """Byte-level BPE that never merges across the matches of a pattern."""

    _tie_break = FIRST_SEEN
    # Settings of `OptimizedRegexTokenizer`; None means all usable cores.
    max_workers: int | None = None
    min_freq_threshold = 1

    def __init__(self, pattern: str | None = None) -> None:
        self.pattern = GPT4_SPLIT_PATTERN if pattern is None else pattern
        self.merges: dict[tuple[int, int], int] = {}
        self.vocab: dict[int, bytes] = {i: bytes([i]) for i in range(256)}
        self.special_tokens: dict[str, int] = {}
        self._engine: Engine | None = None

    def train(self, text: str | Iterable[str], vocab_size: int, verbose: bool = False) -> None:  # noqa: FBT001, FBT002
        """Train `vocab_size - 256` merges on one or several texts."""
        options = {
            "vocab_size": vocab_size,
            "pattern": self.pattern or _EVERYTHING,
            "special_tokens": (),  # minbpe has no special tokens until they are registered
            "min_piece_frequency": self.min_freq_threshold,
        }
        merged = train_merges(
            iter([text] if isinstance(text, str) else text),
            resolve(flags=options, environ={}, job="train", spelling="{}=").config.training,
            threads=self.max_workers or measure().cores.usable,
            tell=self._monitor() if verbose else None,
            own_tie_break=self._tie_break,
        )
        # Renumber to minbpe's ids: the bytes by value, then one id per merge.
        ids = [token[0] for token in merged.tokens[:256]] + list(range(256, len(merged.tokens)))
        pairs = [(ids[left], ids[right]) for left, right in merged.merges]
        self.merges = {pair: 256 + rank for rank, pair in enumerate(pairs)}
        self.vocab = {i: bytes([i]) for i in range(256)} | dict(enumerate(merged.tokens[256:], start=256))
        self._engine = None
        if verbose:  # printed, as in minbpe
            for (pair, new), count in zip(self.merges.items(), merged.counts, strict=True):
                shown = f"{pair} -> {new} ({self.vocab[new]!r}) had {count} occurrences"
                print(f"merge {new - 255}/{vocab_size - 256}: {shown}")

    def register_special_tokens(self, special_tokens: dict[str, int]) -> None:
        """Register strings that become one id, such as `{"<|endoftext|>": 100257}`."""
        taken = set(self.vocab) & set(special_tokens.values())
        if taken:
            raise ConfigError(f"special token ids {sorted(taken)} are already in use; choose others")
        self.special_tokens = dict(special_tokens)
        self._engine = None

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text, treating special tokens as text."""
        return self._build().encode(text, special="text")

    def encode(self, text: str, allowed_special: AllowedSpecial = "none_raise") -> list[int]:
        """Return the ids of a text; `allowed_special` lists the special tokens to recognize."""
        if isinstance(allowed_special, set):
            some = {token: i for token, i in self.special_tokens.items() if token in allowed_special}
            return Engine(self._make_recipe(some)).encode(text, special="parse")
        if allowed_special not in _SPECIAL:
            raise ConfigError(
                f"allowed_special={allowed_special!r}; expected 'all', 'none', 'none_raise' or a set"
            )
        return self._build().encode(text, special=_SPECIAL[allowed_special])

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""
        return self._build().decode(ids)

    def save(self, file_prefix: str) -> None:
        """Write `PREFIX.model`, to load, and `PREFIX.vocab`, to read."""
        (data,) = save_minbpe(self._make_recipe(self.special_tokens)).values()
        # The pattern as it was given, even if the core spells it differently.
        header, _, rest = data.decode().split("\n", 2)
        Path(f"{file_prefix}.model").write_text(f"{header}\n{self.pattern}\n{rest}", encoding="utf-8")
        self.save_vocab(f"{file_prefix}.vocab")

    def save_vocab(self, vocab_file: str) -> None:
        """Write the tokens as text."""
        lines = format_vocabulary(self._make_recipe(self.special_tokens))
        Path(vocab_file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def load(self, model_file: str) -> None:
        """Read a `.model` file."""
        recipe = load_minbpe(Path(model_file), None)
        model = recipe.model
        assert model is not None
        self.pattern = Path(model_file).read_text(encoding="utf-8").split("\n", 2)[1]
        self.vocab = {i: token for i, token in enumerate(model.tokens) if token is not None}
        self.merges = {pair: 256 + rank for rank, pair in enumerate(model.list_merges())}
        self.register_special_tokens({token.content: token.id for token in recipe.added})

    def _monitor(self) -> Callable[[int], None] | None:
        return None

    def _build(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self._make_recipe(self.special_tokens))
        return self._engine

    def _make_recipe(self, special: dict[str, int]) -> Recipe:
        return Recipe(
            source="minbpe",
            format="minbpe",
            model=build_byte_model(((token, i) for i, token in self.vocab.items()), self.merges, "minbpe"),
            added=tuple(AddedToken(token, token_id) for token, token_id in special.items()),
            pre_tokenizer=make_regex_pre_tokenizer(self.pattern),
            decoder=make_byte_level(use_regex=False),
        )


class BasicTokenizer(RegexTokenizer):
    """Byte-level BPE over the text as one piece, without a pattern."""

    def __init__(self) -> None:
        super().__init__("")


class GPT4Tokenizer(RegexTokenizer):
    """GPT-4's own tokenizer (cl100k_base), which is not trained, saved or loaded."""

    def __init__(self) -> None:
        super().__init__()
        self._engine = engine = Engine.load("cl100k_base")
        model = engine.recipe.model
        assert model is not None
        self.vocab = {i: token for i, token in enumerate(model.tokens) if token is not None}
        self.special_tokens = engine.special_tokens
        self._whole = engine.recipe

    def _make_recipe(self, special: dict[str, int]) -> Recipe:
        added = tuple(AddedToken(token, token_id) for token, token_id in special.items())
        return replace(self._whole, added=added)

    def _refuse(self, *_: object) -> None:
        raise NotImplementedError(
            "GPT4Tokenizer cannot be trained, saved or loaded, as in minbpe; use RegexTokenizer, or "
            "tokenmill.Tokenizer.load('cl100k_base')"
        )

    train = save = load = _refuse  # type: ignore[assignment]


class OptimizedRegexTokenizer(RegexTokenizer, AbstractContextManager["OptimizedRegexTokenizer"]):
    """`RegexTokenizer` with the settings of a popular fast variant, as a context manager.

    `max_workers` is the number of counting threads, at most 8 if left out. `min_freq_threshold` ignores
    rarer pieces, which changes the result. `batch_size` and `use_batching` have no effect.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        batch_size: int = 1000,  # noqa: ARG002
        min_freq_threshold: int = 1,
        use_batching: bool = True,  # noqa: ARG002, FBT001, FBT002
        pattern: str | None = None,
    ) -> None:
        super().__init__(pattern)
        if max_workers is not None and max_workers < 1:
            raise ConfigError(f"max_workers is {max_workers}; expected at least 1, or None for up to 8")
        self.max_workers = max_workers or min(measure().cores.usable, 8)
        self.min_freq_threshold = min_freq_threshold

    def __exit__(self, *_: object) -> None:
        """Do nothing: no resource is held."""

    def _monitor(self) -> Callable[[int], None]:
        """Print memory and CPU, at the start and several times a second while merging."""
        import psutil

        process = psutil.Process()

        def show(merges: int) -> None:
            memory, cpu = process.memory_info().rss / 2**20, process.cpu_percent()
            print(f"Iteration {merges}: Memory={memory:.1f}MB, CPU={cpu:.1f}%")

        process.cpu_percent()
        print(f"Initial memory usage: {process.memory_info().rss / 2**20:.1f} MB")
        print(f"CPU cores available: {os.cpu_count()}")
        print(f"Workers configured: {self.max_workers}")
        return show
