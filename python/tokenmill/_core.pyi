"""The Rust core. Flat arrays, NumPy's or memoryviews, go in and come out; long calls release the GIL."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__all__ = [
    "LARGEST_ID",
    "Codec",
    "CsvReader",
    "Family",
    "JsonlReader",
    "Merges",
    "PairMerger",
    "PieceCounter",
    "PieceCounts",
    "Records",
    "Spellings",
    "StringCounter",
    "Tokens",
    "__version__",
    "begin_writeback",
    "best_fit",
    "blank_texts",
    "copy_rows",
    "copy_segments",
    "cpu",
    "deal_turns",
    "families",
    "fill_runs",
    "frame_documents",
    "has_blank",
    "hash_texts",
    "ids_to_lists",
    "in_scripts",
    "invalid_rows",
    "json_members",
    "pattern_of",
    "pre_tokenizer",
    "read_hf",
    "read_small",
    "read_tiktoken",
    "regex_of",
    "regex_pre_tokenizer",
    "scan_family",
    "scan_pieces",
    "spell",
    "split_text",
    "unspell",
]

__version__: str
LARGEST_ID: int

_Bytes: TypeAlias = memoryview | NDArray[np.uint8]
_Int64s: TypeAlias = memoryview | NDArray[np.int64]
_Ids: TypeAlias = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]

# --- packing -----------------------------------------------------------------------------------------

def frame_documents(
    ids: _Ids, offsets: NDArray[np.int64], bos: int | None, eos: int | None, wide: bool
) -> tuple[_Ids, NDArray[np.int64]]:
    """Documents with BOS and EOS around them, as uint32 if `wide`, else uint16."""

def copy_segments(
    ids: _Ids, from_: NDArray[np.int64], to: NDArray[np.int64], length: NDArray[np.int64], out: _Ids
) -> None:
    """Copy `ids[from_:from_ + length]` to `out[to:to + length]` for every segment."""

def copy_rows(
    ids: NDArray[Any],
    bounds: NDArray[np.int64],
    parts: NDArray[np.uint8],
    rows: Sequence[int],
    to: Sequence[int],
    length: int,
    multiple: int,
    pad: int,
    out: NDArray[Any],
) -> None:
    """Fill `out` with rows of a shard by the index of a view, and with `pad` where they have no tokens."""

def fill_runs(
    firsts: NDArray[np.int64],
    step: int,
    to: NDArray[np.int64],
    length: NDArray[np.int64],
    out: NDArray[np.int8] | NDArray[np.int32] | NDArray[np.int64],
) -> None:
    """Write `firsts, firsts + step, …` to `out[to:to + length]` (int8, int32 or int64) for every run."""

def best_fit(
    lengths: NDArray[np.int64], capacity: int, most: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bin of every item and its place in it: best fit, longest first; a bin takes `most` items."""

def deal_turns(turns: Sequence[int]) -> NDArray[np.uint16]:
    """Return the source of each row of a period, in which each source has so many turns."""

@final
class StringCounter:
    """Counts the occurrences of fixed strings in texts; of two that start at one place the longer counts."""

    def __new__(cls, strings: list[str]) -> StringCounter: ...
    def count(self, data: _Bytes, offsets: _Int64s) -> int:
        """Return the occurrences in all texts `data[offsets[d]:offsets[d + 1]]`, none across two texts."""

def blank_texts(data: _Bytes, offsets: _Int64s) -> NDArray[np.bool_]:
    """Whether each text `data[offsets[d]:offsets[d + 1]]` is empty or all white space."""

def has_blank(data: _Bytes, offsets: _Int64s) -> bool:
    """Whether any text is."""

def begin_writeback(file: int, start: int, length: int) -> None:
    """Ask the system to begin writing a part of an open file to the disk, without waiting; never raises."""

def hash_texts(data: _Bytes, offsets: _Int64s) -> NDArray[np.uint64]:
    """XXH3-128 of every text `data[offsets[d]:offsets[d + 1]]`, as (low, high) in one flat array."""

# --- records -----------------------------------------------------------------------------------------

@final
class Records:
    """The documents of a block as flat buffers, and what was refused."""

    @property
    def texts(self) -> tuple[memoryview, memoryview]:
        """UTF-8 bytes and `documents + 1` offsets."""
    def rows(self, first: int) -> memoryview:
        """Record number of each document, that of the block's first record being `first`."""
    @property
    def starts(self) -> memoryview:
        """Offset in the block at which each document's record starts."""
    @property
    def columns(self) -> list[tuple[NDArray[np.uint8], memoryview, memoryview]]:
        """Kinds, bytes and offsets of each column."""
    @property
    def rejects(self) -> list[tuple[str, int, int, bytes]]:
        """The first refused records: reason, row, byte, sample."""
    @property
    def refused(self) -> list[tuple[str, int]]:
        """How many records were refused, by reason."""
    @property
    def replaced(self) -> list[tuple[str, int]]:
        """How many sequences were replaced, by reason."""
    @property
    def rows_read(self) -> int:
        """Records passed, blank and refused ones included."""

@final
class JsonlReader:
    """Reads JSON Lines; a text is made of literal strings and of fields named by lists of keys."""

    def __new__(
        cls, text: list[str | list[str]], columns: list[list[str]], *, limit: int, replace: bool
    ) -> JsonlReader: ...
    def read(self, block: Buffer, /) -> Records:
        """Read a block of whole lines."""
    def read_elements(self, block: Buffer, state: int, /, *, last: bool) -> tuple[Records, int, int, bool]:
        """Read the whole elements of a part of one JSON value: records, bytes used, state, broken."""

def json_members(head: bytes, /) -> tuple[list[tuple[str, str]], bool]:
    """Names of the object at the start of `head`, with each value's first character; if it is whole."""

@final
class CsvReader:
    """Reads delimited rows; a text is made of literal strings and of fields by their numbers."""

    def __new__(
        cls,
        text: list[str | int],
        columns: list[int],
        *,
        delimiter: int,
        width: int,
        limit: int,
        replace: bool,
    ) -> CsvReader: ...
    def read(self, block: Buffer, /, *, last: bool) -> tuple[Records, int]:
        """Read the whole rows of a block; also the bytes that they took."""

def split_text(block: Buffer, separator: bytes, *, strip_cr: bool, limit: int, replace: bool) -> Records:
    """Split a block at each separator; an empty one keeps it whole."""

def invalid_rows(data: Buffer, offsets: NDArray[np.int64], /) -> list[tuple[int, int]]:
    """Rows of a large string array that are not UTF-8, with the offset of the fault."""

def read_small(
    paths: Sequence[str | bytes | PathLike[str]], most: int
) -> tuple[memoryview, memoryview, memoryview]:
    """Up to `most` bytes of each file, flat; where each begins; size, mtime and inode of each.

    These are -1 three times for a file that the caller must read itself: missing, not plain, or changing.
    """

# --- training ----------------------------------------------------------------------------------------

@final
class PieceCounter:
    """Counts the pieces of blocks of texts, on `threads` threads, within `memory_budget` bytes.

    With `in_order` it keeps which piece came first, in the order in which `count` is called.
    """

    def __new__(
        cls,
        pattern: str,
        special_tokens: Sequence[str],
        threads: int,
        memory_budget: int,
        spill_dir: str | PathLike[str],
        *,
        in_order: bool = False,
    ) -> PieceCounter: ...
    def count(self, data: _Bytes, offsets: _Int64s) -> None:
        """Count the pieces of `data[offsets[i]:offsets[i + 1]]` for every i."""

    def last_cut(self, data: _Bytes) -> int:
        """Return the last byte at which a text that begins with `data` can be cut and keep its pieces, or 0.

        No special token is cut either. `data` may end anywhere, also within a character.
        """

    def add(self, data: _Bytes, offsets: _Int64s, counts: NDArray[np.uint64]) -> None:
        """Add pieces with their counts."""

    def totals(self) -> tuple[int, int, int, int]:
        """(documents, bytes, pieces, bytes of memory held) so far."""

    def finish(self) -> PieceCounts:
        """Return the sums; the counter cannot be used afterwards."""

@final
class PieceCounts:
    """Distinct pieces with their counts."""

    def unique(self) -> int:
        """How many distinct pieces there are."""

    def spilled_bytes(self) -> int:
        """Bytes that went to disk while counting."""

    def batches(self) -> int:
        """How many batches there are."""

    def batch(self, part: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]:
        """Batch `part` as (data, offsets, counts); the same batches whatever was spilled."""

def in_scripts(tokens: Sequence[bytes], scripts: Sequence[str]) -> list[bool]:
    """Whether each token has letters, and all of them are of these scripts."""

@final
class PairMerger:
    """A run of merges over counts, which it uses up."""

    def __new__(
        cls,
        counts: PieceCounts,
        tokens: int,
        min_frequency: int,
        min_piece_frequency: int,
        max_token_length: int,
        tie_break: str,
        unify: bool,
    ) -> PairMerger: ...
    @staticmethod
    def from_vocabulary(
        data: NDArray[np.uint8],
        ends: NDArray[np.int64],
        ids: NDArray[np.uint32],
        offsets: NDArray[np.int64],
        counts: NDArray[np.uint64],
        *,
        tokens: int,
        min_frequency: int,
        max_token_length: int,
        tie_break: str,
        apart: NDArray[np.uint32],
        scripts: list[str],
        whole_characters: bool,
    ) -> PairMerger:
        """Continues from the vocabulary `data[ends[id]:ends[id + 1]]`, in which an unused id is empty.

        `ids[offsets[i]:offsets[i + 1]]` is a word of its tokens that occurs `counts[i]` times; `apart` are
        pairs of ids that must not merge; a new token has letters of `scripts` alone, if any are named, and no
        part of a character if it must have `whole_characters`.
        """

    def require(self, pairs: NDArray[np.uint32]) -> None:
        """Make these pairs the next merges, whatever their counts."""

    def advance(self, limit: int) -> bool:
        """Do up to `limit` steps. Return True when nothing is left to do."""

    def replay(self, steps: NDArray[np.uint32]) -> None:
        """Repeats the steps of an earlier run."""

    def progress(self) -> tuple[int, int, int]:
        """Return (merges, tokens, bytes of memory held) so far."""

    @property
    def pieces(self) -> int:
        """How many distinct pieces take part."""

    def merges(self) -> Merges:
        """Return the merges so far."""

    def steps(self) -> NDArray[np.uint32]:
        """Return what `replay` needs."""

    def counts(self) -> memoryview:
        """Return the count of each merge when it was chosen."""

    def tokens(self) -> Tokens:
        """Return the bytes of every token, by id; the single bytes come first, in Hugging Face's order."""

# --- tokenizer ---------------------------------------------------------------------------------------

@final
class Codec:
    """A whole tokenizer: immutable, safe to share between threads."""

    def __new__(
        cls,
        recipe: str,
        tokens: Tokens,
        order: Merges | Sequence[int] | None,
    ) -> Codec:
        """From a recipe as JSON, in the words of a `tokenizer.json` (`crates/core/src/recipe/mod.rs`).

        `order` is that of the merges: pairs of ids, ids, or None where tokens rank by their ids. An unknown
        key or value of the recipe is a TokenizerError that names it; what the core does not provably do as
        the tokenizer's own library does is an UnsupportedError with the reason.
        """
    @property
    def family(self) -> str:
        """The family of the pattern, or "chain" for any other."""
    @property
    def scanner(self) -> str:
        """What finds the pieces: "blocks", "automaton" or "regex"; "words" without a pattern."""
    @property
    def spelled(self) -> bool:
        """Whether the model sees the printable spelling of bytes, so that `decode` gives that."""
    @property
    def id_limit(self) -> int:
        """The largest id plus one."""
    @property
    def can_cut(self) -> bool:
        """Whether a stream can be encoded in bounded memory."""
    def encode(self, text: str | bytes, special: str, template: bool) -> list[int]:
        """Return the ids of one text."""
    def encode_part(
        self, data: Buffer, special: str, continued: bool
    ) -> NDArray[np.uint16] | NDArray[np.uint32]:
        """Return the ids of a part of a UTF-8 text; `continued` marks a part after a cut."""
    def last_cut(self, data: Buffer) -> int:
        """Return the last byte at which a text that begins with `data` can be cut; 0 if nowhere."""
    def encode_list(
        self, docs: list[str | bytes], special: str, template: bool, threads: int
    ) -> tuple[_Ids, NDArray[np.int64]]:
        """Return the ids of a list of str or bytes: `(ids, offsets)`."""
    def encode_chunks(
        self,
        chunks: Sequence[tuple[Buffer, Buffer | Sequence[Buffer]]],
        special: str,
        template: bool,
        threads: int,
    ) -> tuple[_Ids, NDArray[np.int64]]:
        """Return the ids of Arrow chunks, each `(offsets or views, data buffers)`."""
    def encode_lists(
        self, docs: list[str | bytes], special: str, template: bool, threads: int
    ) -> list[list[int]]:
        """Return the ids of a list of str or bytes, one list for each."""
    def encode_framed(
        self, offsets: _Int64s, data: _Bytes, special: str, frame: tuple[int | None, int | None], threads: int
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of flat texts, each between the ids of `frame`: `(ids, offsets)`."""
    def count_list(
        self, docs: list[str | bytes], special: str, template: bool, threads: int
    ) -> NDArray[np.int64]:
        """How many ids each document has."""
    def offsets(self, text: str, special: str, template: bool) -> tuple[list[int], list[int], list[int]]:
        """Ids, and for each the first and one past the last character."""
    def piece_ends(self, text: str, special: str) -> list[int]:
        """Return the end of every piece, in bytes of the normalized text."""
    def decode(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> bytes:
        """Return the bytes of the ids, one after the other."""
    def decode_batch(
        self, ids: Sequence[int] | NDArray[np.integer[Any]], offsets: NDArray[np.int64], errors: str
    ) -> list[str]:
        """One text for each document of a flat array; `errors` is that of `bytes.decode`."""
    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of one token, or None."""
    def id_of(self, token: bytes) -> int | None:
        """Return the id of a token's bytes, or None."""

def ids_to_lists(ids: _Ids, offsets: NDArray[np.int64]) -> list[list[int]]:
    """One list of ints for each document of a flat array."""

# --- scan --------------------------------------------------------------------------------------------

def cpu() -> tuple[str, list[str]]:
    """Return the set of instructions in use and its CPU features: `("avx2", ["avx2", "bmi1", "bmi2", …])`.

    The best that this CPU has, or the one that `TOKENMILL_CPU` names ("avx512", "avx2", "neon", "portable");
    every set gives the same results. A name that is unknown, or of a set that this CPU lacks, is a
    RuntimeWarning when the module is imported.
    """

@final
class Family:
    """A pattern that has a block scanner."""

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def aliases(self) -> list[str]:
        """Models with the very same pattern; each name is accepted as well."""
    @property
    def regex(self) -> str | None:
        """The one regex whose matches are the pieces; None where it takes several steps."""
    @property
    def pre_tokenizer(self) -> str:
        """Its pre-tokenizer in a `tokenizer.json`."""

def families() -> list[Family]:
    """Every family."""

def pre_tokenizer(pattern: str) -> str:
    """Return the pre-tokenizer of a family or a regex (tiktoken's dialect), as JSON."""

def regex_pre_tokenizer(regex: str) -> str:
    """Return the pre-tokenizer of a regex from a file, even if it looks like a family's name."""

def regex_of(pre_tokenizer: str) -> str | None:
    """Return the one regex whose matches are the pieces of a pre-tokenizer; or None."""

def pattern_of(pre_tokenizer: str) -> str | None:
    """Return the pattern from which `pre_tokenizer` makes this one: a family's name, a regex or None."""

def scan_pieces(pre_tokenizer: str, text: str, *, general: bool = False) -> list[str]:
    """Return the pieces of a text by the JSON of a pre-tokenizer.

    `scan_pieces(pre_tokenizer("gpt2"), "it's 5")` -> `["it", "'s", " 5"]`. With `general` they are found by
    the regex engine.
    """

def scan_family(pre_tokenizer: str) -> str:
    """Return the family of a pre-tokenizer, or "chain"."""

# --- vocabulary files --------------------------------------------------------------------------------

@final
class Tokens(Sequence[bytes | None]):
    """The bytes of every token, by id; None in the holes."""

    def __new__(cls, pairs: Sequence[tuple[bytes, int]], source: str) -> Tokens:
        """From `(token, id)` pairs; errors name `source` (two tokens with one id, an id out of range)."""
    @property
    def count(self) -> int:  # type: ignore[override]
        """How many ids have a token."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[bytes | None]: ...
    def __eq__(self, other: object, /) -> bool: ...
    @staticmethod
    def from_flat(bytes: bytes, lengths: bytes, ids: bytes) -> Tokens:
        """Return the pickled parts: the bytes of all tokens, their lengths and their ids."""
    def prepend(self, first: Sequence[bytes]) -> Tokens:
        """Return these tokens after `first`, with their ids raised by as many."""
    def splits(self, order: Sequence[int], characters: bool) -> Merges:
        """Every split of the tokens in `order`, which are ids by rank, into two tokens that can be merged."""
    def digest_bytes(self) -> bytes:
        """Return what a fingerprint hashes: length and bytes of every token, one byte 255 for every hole."""

@final
class Merges(Sequence[tuple[int, int]]):
    """Pairs of token ids in the order of their ranks."""

    def __new__(cls, pairs: Sequence[tuple[int, int]]) -> Merges:
        """From pairs whose products are not known."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[tuple[int, int]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    @staticmethod
    def from_flat(pairs: bytes, products: bytes) -> Merges:
        """Return the pickled parts."""
    def shift_ids(self, by: int) -> Merges:
        """Return these merges with every id raised by `by`."""
    def json(self) -> str:
        """`[[left,right],…]`, as a fingerprint hashes it."""

@final
class Spellings:
    """The vocabulary of a `tokenizer.json` or `vocab.json`: token -> id, as the file spells tokens."""

    def __new__(cls, data: bytes, source: str) -> Spellings:
        """From the text of a `vocab.json`."""
    def read_merges(self, data: bytes, source: str) -> Merges:
        """Return the merges in the text of a `merges.txt`."""
    def __len__(self) -> int: ...
    def get(self, spelling: str) -> int | None:
        """Return the id of a token, or None."""
    def as_text(self) -> Tokens:
        """Return the tokens as UTF-8."""
    def as_bytes(self) -> tuple[Tokens, list[tuple[int, bytes]]]:
        """Return the tokens as bytes, and `(id, UTF-8)` of those outside the byte alphabet."""

def read_tiktoken(data: bytes, source: str) -> Tokens:
    """Return the tokens of a `.tiktoken` file, whose ids are their ranks."""

def read_hf(data: bytes, source: str) -> tuple[bytes, tuple[Spellings, Merges] | None]:
    """Return the outline of a `tokenizer.json`, and the vocabulary and the merges of a BPE."""

def spell(token: bytes) -> str:
    """`b" hi"` -> `"Ġhi"`: bytes in GPT-2's printable alphabet."""

def unspell(spelled: str) -> bytes | None:
    """`"Ġhi"` -> `b" hi"`; None where a character is outside the alphabet."""
