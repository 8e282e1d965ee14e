"""One file to an `InputFile`: format, compression and text mode, by name and by first bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from tokenmill.sources.compression import detect_compression, open_stream
from tokenmill.sources.detect import (
    HEAD_BYTES,
    Named,
    detect_text_format,
    find_disagreement,
    is_lines_of_json,
    parse_name,
)
from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.formats import detect_binary_format
from tokenmill.sources.model import InputFile
from tokenmill.sources.raw import RawFile

if TYPE_CHECKING:
    from tokenmill.settings.schema import SourceConfig

DEFAULT_SEPARATOR = "<|endoftext|>"
# A plain text file up to this size is taken for one document, a larger one for a document a line.
WHOLE_FILE_BYTES = 16 << 20
RAW_HEAD_BYTES = 64


def identify(
    url: str,
    size: int,
    identity: str,
    config: SourceConfig,
    *,
    split: str | None = None,
    saved: bool = False,
    start: bytes | None = None,
) -> InputFile:
    """Decide what a file is by its name and first bytes; the user's `format` overrides both.

    `start` are those bytes where somebody has read them: at least 64, or all.
    """
    named = Named("arrow", None) if saved else parse_name(url)
    file = InputFile(url, size, identity, named.format or "", split=split)
    try:
        head = _read_raw_head(file) if start is None else start[:RAW_HEAD_BYTES]
    except FileFaultError:
        if config.on_error == "fail":
            raise
        return replace(file, format=named.format or "jsonl", compression=named.compression)
    wrong = None if saved and detect_binary_format(head) == "arrow" else find_disagreement(url, named, head)
    if wrong and config.on_error == "fail":
        raise FileFaultError("wrong_extension", url, wrong)
    file = InputFile(
        url, size, identity, file.format, detect_compression(head), split, notes=(wrong,) if wrong else ()
    )
    decoded = _Decoded(file, config, start)
    kind = _choose_format(file, named, head, config, decoded, wrong=bool(wrong))
    if kind != file.format:
        file = replace(file, format=kind)
    if kind == "json" and config.format != "json":
        file = _detect_lines(file, decoded)
    return _choose_txt_mode(file, config, decoded) if file.format == "txt" else file


class _Decoded(NamedTuple):
    """The first decoded bytes of a file, read when they are asked for unless `start` has them."""

    file: InputFile
    config: SourceConfig
    start: bytes | None

    def head(self) -> bytes:
        if self.start is not None and self.file.compression is None and len(self.start) == self.file.size:
            return self.start[:HEAD_BYTES]
        return read_decoded_head(self.file, self.config.max_expansion)


def _choose_format(
    file: InputFile, named: Named, head: bytes, config: SourceConfig, decoded: _Decoded, *, wrong: bool
) -> str:
    if config.format not in {"auto", "hf"}:
        return config.format
    binary = detect_binary_format(head) if file.compression is None else None
    if binary or (named.format and not wrong):
        return binary or str(named.format)
    return detect_text_format(decoded.head())


def _detect_lines(file: InputFile, decoded: _Decoded) -> InputFile:
    if not is_lines_of_json(decoded.head()):
        return file
    note = f"{file.url} is named .json but holds JSON Lines, and is read as such"
    return replace(file, format="jsonl", notes=(*file.notes, note))


def _read_raw_head(file: InputFile) -> bytes:
    with RawFile(file) as raw:
        return raw.read(RAW_HEAD_BYTES)


def read_decoded_head(file: InputFile, max_expansion: int) -> bytes:
    """The first decoded bytes, fewer if the file is short or damaged (reading it will tell)."""
    stream = open_stream(file, 0, max_expansion)
    buffer, fill = bytearray(HEAD_BYTES), 0
    try:
        with memoryview(buffer) as view:
            while fill < HEAD_BYTES and (count := stream.readinto(view[fill:])):
                fill += count
    except FileFaultError:
        pass
    finally:
        stream.close()
    return bytes(buffer[:fill])


def _choose_txt_mode(file: InputFile, config: SourceConfig, decoded: _Decoded) -> InputFile:
    mode: Literal["file", "line", "separator"]
    separator = config.document_separator
    if config.txt_mode != "auto":
        mode = config.txt_mode
    elif separator is not None:
        mode = "separator"
    else:
        head = decoded.head()
        if DEFAULT_SEPARATOR.encode() in head:
            mode = "separator"
        else:
            small = file.compression is None and file.size <= WHOLE_FILE_BYTES
            mode = "file" if len(head) < HEAD_BYTES or small else "line"
    if mode == "separator":
        separator = separator or DEFAULT_SEPARATOR
    return replace(file, txt_mode=mode, separator=separator if mode == "separator" else None)
