"""Settle what the user left open: which field is the text, looked up in the first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.sources.faults import FileFaultError
from tokenmill.sources.fields import choose
from tokenmill.sources.heads import DELIMITERS, csv_header, line_records, value_records
from tokenmill.sources.identify import decoded_head
from tokenmill.sources.model import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile


def settle(config: SourceConfig, files: Sequence[InputFile]) -> tuple[SourceConfig, list[str]]:
    """The config with its text field (or template) filled in, and lines that say what was chosen."""
    chosen = [f"Input: {len(files)} file(s), {_formats(files)}"]
    chosen += [
        f"Text files: {line}" for line in sorted({_txt_words(file) for file in files if file.format == "txt"})
    ]
    chosen += [note for file in files for note in file.notes]
    if config.text_field or config.template:
        return config, chosen
    for first in (file for file in files if file.format != "txt" and not _empty(file)):
        try:
            strings, everything = _columns(first, config)
        except FileFaultError:
            if config.on_error == "fail":
                raise
            continue
        if everything or first.format != MEMORY:  # an iterable may turn out to be empty
            return _chosen(config, chosen, choose(strings, everything, first.url), first.url)
    return config, chosen


def _chosen(
    config: SourceConfig, lines: list[str], choice: tuple[str | None, str | None], url: str
) -> tuple[SourceConfig, list[str]]:
    field, template = choice
    words = f"field {field!r}" if field else f"template {template!r}"
    chosen = config.replaced(text_field=field, template=template)
    return chosen, [*lines, f"Text: {words} (found in {url})"]


def _empty(file: InputFile) -> bool:
    return file.size == 0 and file.format != MEMORY


def _formats(files: Sequence[InputFile]) -> str:
    kinds = sorted({f"{file.format}, {file.compression or 'plain'}" for file in files})
    return "; ".join(kinds)


def _txt_words(file: InputFile) -> str:
    if file.txt_mode == "separator":
        return f"a document ends at each {file.separator!r}"
    return "each line is a document" if file.txt_mode == "line" else "each file is a document"


def _columns(file: InputFile, config: SourceConfig) -> tuple[list[str], list[str]]:
    if file.format in {"parquet", "arrow"}:
        from tokenmill.sources import columnar  # here, since it brings Arrow along

        read = columnar.parquet_schema if file.format == "parquet" else columnar.arrow_schema
        return text_columns(read(file))
    if file.format == MEMORY:
        from tokenmill.sources import memory

        found = memory.sample(file)
        return _record_columns({"text": item} if isinstance(item, str) else item for item in found)
    head = decoded_head(file, config.max_expansion)
    if file.format in DELIMITERS:
        names = csv_header(head, DELIMITERS[file.format], file.url)[0]
        return names, names
    return _record_columns(line_records(head) if file.format == "jsonl" else value_records(head))


def text_columns(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Names of the columns of strings, and of all columns."""
    from tokenmill.sources.columns import is_text

    return [field.name for field in schema if is_text(field.type)], schema.names


def _record_columns(found: Iterator[Any]) -> tuple[list[str], list[str]]:
    """Names that hold a string in every record that has them, and all names."""
    kinds: dict[str, bool] = {}
    for record in found:
        if isinstance(record, dict):
            for name, value in record.items():
                kinds[name] = kinds.get(name, True) and (value is None or isinstance(value, str))
    return [name for name, string in kinds.items() if string], list(kinds)
