"""`Engine`, which turns text into ids behind a `Tokenizer`, the choice of one for a recipe, and batches.

Documents come in as str, bytes or Arrow arrays. Their ids come out as flat arrays, without copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tokenmill.errors import InputError, TokenizerError, UnsupportedError
from tokenmill.tokenizer.recipe import Recipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
    from tokenmill.tokenizer.engines.huggingface import HuggingFaceEngine

Docs = list[str | bytes]
# Ids, and the `(start, end)` characters of each.
Spans = tuple[list[int], list[tuple[int, int]]]
# Flat uint16 or uint32 ids, and offsets.
FlatIds: TypeAlias = "tuple[NDArray[Any], NDArray[np.int64]]"

StrategyName = Literal["native", "huggingface", "python"]
# "fast" and "slow" are the names that transformers uses for "huggingface" and "python".
StrategyOption = Literal["auto", "native", "huggingface", "python", "fast", "slow"]
_ALIASES = {"fast": "huggingface", "slow": "python"}
Special = Literal["parse", "text", "forbid"]


class TokenBatch:
    """Flat `ids` (uint16 or uint32) and `offsets` (int64): document `i` is `ids[offsets[i]:offsets[i + 1]]`.

    >>> import numpy as np
    >>> TokenBatch(np.array([5, 6, 7], np.uint16), np.array([0, 2, 3])).to_lists()
    [[5, 6], [7]]
    """

    __slots__ = ("ids", "offsets")

    ids: NDArray[np.uint16] | NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: NDArray[Any], offsets: NDArray[Any]) -> None:
        self.ids = ids
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[Any]:
        """Return the ids of one document, as a view of the flat array."""
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"there is no document {index} in a batch of {size}")
        index %= size
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for start, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.ids[start:end]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenBatch):
            return NotImplemented
        import numpy as np

        return np.array_equal(self.ids, other.ids) and np.array_equal(self.offsets, other.offsets)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"TokenBatch({len(self)} documents, {len(self.ids)} ids, {self.ids.dtype})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each document."""
        import numpy as np

        return np.diff(self.offsets)

    def to_lists(self) -> list[list[int]]:
        """Return one Python list of ints per document."""
        from tokenmill._core import ids_to_lists

        return ids_to_lists(self.ids, self.offsets)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.LargeListArray` of uint16 or uint32 over the same memory."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(pa.array(self.offsets), pa.array(self.ids))


@dataclass(frozen=True, slots=True)
class Strategy:
    """The engine and the reason: `Strategy("huggingface", "the model is WordPiece")`."""

    name: StrategyName
    reason: str

    def __str__(self) -> str:
        """Return `native (byte-level BPE)`, as the command prints it."""
        return f"{self.name} ({self.reason})"


class Engine(ABC):
    """The part that turns text into ids. It is immutable, picklable, and safe to call from threads.

    `docs` is a list of str or bytes, or a pyarrow string or binary array (chunked or not). The ids of all
    documents come back in one flat array, with `len(docs) + 1` int64 offsets. What is not abstract here is
    right for an engine of another library.
    """

    # The largest id plus one, and the name of the scanner (native) or of the model's type.
    id_limit: int
    family: str
    # True for the core, which alone has `encode_framed` and `encode_part` and reproduces another library.
    native = False

    @abstractmethod
    def encode_lists(self, docs: Docs, special: Special, *, template: bool, threads: int) -> list[list[int]]:
        """Return the ids of many texts, one list for each; `template` adds what the post-processor adds."""

    @abstractmethod
    def offsets(self, text: str, special: Special, *, template: bool) -> Spans:
        """Return the ids of one text and the `(start, end)` characters that each covers."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """Return the bytes of the ids."""

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of one id, or None for an id that is not in the vocabulary."""

    @abstractmethod
    def id_of(self, token: bytes) -> int | None:
        """Return the id of a token's bytes, or None."""

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """Return the ids of one text."""
        return self.encode_lists([text], special, template=template, threads=1)[0]

    def encode_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> FlatIds:
        """Return the ids of many texts, flat, with offsets."""
        if is_arrow(docs):
            list_chunks(docs)  # raises for nulls and wrong types
            docs = docs.to_pylist()
        import numpy as np

        rows = self.encode_lists(list(docs), special, template=template, threads=threads)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        dtype = np.uint16 if self.id_limit <= 1 << 16 else np.uint32
        return np.fromiter((token for row in rows for token in row), dtype, int(offsets[-1])), offsets

    def encode_framed(
        self, texts: Texts, frame: tuple[int | None, int | None], special: Special, *, threads: int
    ) -> tuple[memoryview, memoryview]:
        """Return the ids of flat texts, each between the ids of `frame`, and offsets."""
        raise NotImplementedError

    def encode_stream(self, texts: Iterable[str], special: Special) -> Iterator[int]:
        """Yield the ids of the joined parts."""
        yield from self.encode("".join(texts), special, template=False)

    def encode_part(self, data: memoryview, special: Special, *, continued: bool) -> NDArray[Any]:
        """Return the ids of a part of a UTF-8 text, `continued` after a cut."""
        raise NotImplementedError

    def piece_ends(self, text: str, special: Special) -> list[int] | None:  # noqa: ARG002 - unknown here
        """Return the ends of pieces, in bytes of the normalized text; None if the engine cannot."""
        return None

    def decode_text(self, ids: Sequence[int] | NDArray[Any], errors: str, *, skip_special: bool) -> str:
        """Return the text of the ids, by the tokenizer's decoder."""
        return self.decode(ids, skip_special=skip_special).decode("utf-8", errors)

    def decode_texts(self, ids: Any, offsets: Any, errors: str) -> list[str] | None:  # noqa: ARG002 - one by one
        """Return one text for each document of a flat array; None if each must be decoded separately."""
        return None

    def count_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> NDArray[np.int64]:
        """Return the number of ids of each text."""
        import numpy as np

        return np.diff(self.encode_batch(docs, special, template=template, threads=threads)[1])


def build(recipe: Recipe, strategy: StrategyOption, num_proc: int | None = None) -> tuple[Engine, Strategy]:
    """Return the engine for a recipe and the reason: "auto" is `native` if the core supports the recipe."""
    from tokenmill.tokenizer.engines.native import NativeEngine  # which imports this module

    wanted = _ALIASES.get(strategy, strategy)
    if wanted not in {"auto", "native", "huggingface", "python"}:
        raise TokenizerError(f"strategy={wanted!r}; expected auto, native, huggingface or python")
    if recipe.python is not None or wanted == "python":
        return _build_python(recipe, wanted, num_proc)
    if wanted == "huggingface":
        return _build_huggingface(recipe), Strategy("huggingface", "as requested")
    try:
        engine = NativeEngine(recipe)
    except TokenizerError as error:
        if wanted == "auto" and isinstance(error, UnsupportedError):
            return _build_huggingface(recipe), Strategy("huggingface", str(error))
        # A file that the core rejects may still load in Hugging Face's library.
        if wanted == "auto" and recipe.hf is not None:
            with suppress(TokenizerError):
                return _build_huggingface(recipe), Strategy("huggingface", str(error))
        why = f"not supported by the native engine: {error}; use strategy='auto'"
        text = why if isinstance(error, UnsupportedError) else str(error)
        raise TokenizerError(f"{recipe.source}: {text}") from error
    kind = "byte-level" if recipe.model and recipe.model.kind == "bytes" else "SentencePiece-style"
    scanner = engine.codec.scanner if engine.family == "chain" else engine.family
    return engine, Strategy("native", f"{kind} BPE, scanner {scanner}")


def _build_python(recipe: Recipe, wanted: str, num_proc: int | None) -> tuple[Engine, Strategy]:
    # Imported here: it imports multiprocessing, which few tokenizers need.
    from tokenmill.tokenizer.engines.python import PythonEngine

    if recipe.python is None or wanted not in {"auto", "python"}:
        raise TokenizerError(
            f"{recipe.source}: cannot run with strategy={wanted!r}: tokenizers written in Python, and no "
            "others, run as 'python'; use strategy='auto'"
        )
    reason = recipe.reason or f"{type(recipe.python).__name__} is written in Python"
    return PythonEngine(recipe.python, num_proc), Strategy("python", reason)


def _build_huggingface(recipe: Recipe) -> HuggingFaceEngine:
    from tokenmill.tokenizer.engines.huggingface import HuggingFaceEngine
    from tokenmill.tokenizer.files.hf import HfText, to_json

    hf = recipe.hf or HfText(to_json(recipe))
    family, id_limit, model = str(hf.model.get("type", "unknown")), None, recipe.model
    if model is not None:
        ids = [*(token.id for token in recipe.added), *(token_id for token_id, _ in model.unreachable)]
        id_limit = max(len(model.tokens), *(i + 1 for i in ids), 0)
    return HuggingFaceEngine(hf.spell_out(), family, recipe.added, recipe.source, id_limit)


def check_text(doc: str | bytes, index: int) -> str:
    """Return a document as a str that UTF-8 can encode; raise `InputError` with the position otherwise."""
    if isinstance(doc, bytes):
        try:
            return doc.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"document {index}: invalid UTF-8 at byte {error.start}; decode it first"
            ) from error
    if not isinstance(doc, str):
        raise TypeError(f"document {index}: expected str or bytes, found {type(doc).__name__}")
    try:
        doc.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"document {index}: the text contains a lone surrogate at character {error.start}, which UTF-8 "
            "cannot encode; replace it first"
        ) from error
    return doc


def check_texts(docs: Iterable[str | bytes], special: str, tokens: Iterable[str]) -> list[str]:
    """Return valid texts; raise `InputError` for the string of a special token if those are forbidden."""
    texts = [check_text(doc, index) for index, doc in enumerate(docs)]
    for index, text in enumerate(texts) if special == "forbid" else ():
        for token in tokens:
            if token in text:
                raise InputError(
                    f"document {index}: the text contains the special token {token!r} at character "
                    f"{text.index(token)} and special='forbid'; use special='text' or 'parse'"
                )
    return texts


def is_arrow(docs: Any) -> bool:
    """Return True for a pyarrow array, chunked or not, and for our `Texts`; imports neither."""
    return type(docs).__module__.split(".")[0] == "pyarrow" or _is_texts(docs)


def _is_texts(docs: Any) -> bool:
    return type(docs).__module__ == "tokenmill.base.texts"


def list_chunks(docs: Any) -> list[tuple[Any, Any]]:
    """Return one `(offsets, data)` or `(views, [data, ...])` for each chunk of a string or binary array."""
    if _is_texts(docs):
        return [(docs.offsets, docs.data)]
    chunks = docs.chunks if hasattr(docs, "chunks") else [docs]
    start, out = 0, []
    for chunk in chunks:
        if chunk.null_count:
            row = start + chunk.is_null().index(True).as_py()
            raise InputError(
                f"document {row} is null; a null has no tokens: drop it or fill it, e.g. array.fill_null('')"
            )
        out.append(_take_buffers(chunk))
        start += len(chunk)
    return out


def _take_buffers(chunk: Any) -> tuple[Any, Any]:
    import numpy as np

    kind = str(chunk.type)
    if kind.startswith(("dictionary", "extension")):
        raise InputError(
            f"found an Arrow array of {kind}; cast it first, e.g. array.cast(pyarrow.large_string())"
        )
    buffers, start, size = chunk.buffers(), chunk.offset, len(chunk)
    if kind in {"string_view", "binary_view"}:
        views = _view_bytes(buffers[1])[16 * start : 16 * (start + size)]
        return views, [_view_bytes(buffer) for buffer in buffers[2:]]
    widths = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
    if kind not in widths:
        raise InputError(
            f"found an Arrow array of {kind}; expected string, binary, or their large or view forms: "
            "pass the column with the text"
        )
    offsets = np.frombuffer(buffers[1], widths[kind]) if buffers[1] else np.zeros(1, widths[kind])
    return offsets[start : start + size + 1], _view_bytes(buffers[2])


def _view_bytes(buffer: Any) -> Any:
    import numpy as np

    return np.frombuffer(buffer if buffer is not None and buffer.size else b"", np.uint8)
