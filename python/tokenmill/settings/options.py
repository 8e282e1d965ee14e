"""Type the settings as keyword arguments, for editors; a test compares them with the schema."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, TypedDict

from tokenmill.settings import schema

Path = str | PathLike[str]
Bytes = int | str


class _Both(TypedDict, total=False):
    input_format: schema.Format
    text_field: str | None
    template: str | None
    txt_mode: Literal["auto", "file", "line", "separator"]
    document_separator: str | None
    split: str | None
    subset: str | None
    revision: str | None
    on_error: schema.OnError
    max_record_bytes: Bytes
    report: bool
    threads: int | None
    memory_budget: Bytes | None
    show_progress: bool
    verbose_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class PrepareOptions(_Both, total=False):
    """Settings of `tokenmill.prepare`, in addition to its named arguments."""

    messages_field: str | None
    prompt_field: Path | Sequence[Path]
    completion_field: str | None
    ids_field: str | None
    chat_columns: Path | Sequence[Path]
    id_field: str | None
    max_errors: int | None
    chat_template: str | None
    train_on: str
    one_sample_per_answer: bool
    mask_style: Literal["tokenmill", "trl"]
    system: str | None
    chat_variables: Path | Sequence[Path]
    chat_date: str | None
    tokenizer_name: str | None
    pattern: str | None
    strategy: Literal["auto", "native", "huggingface", "python"]
    special: Literal["parse", "text", "forbid"]
    parity_check: bool
    drop_blank: bool
    min_chars: int | None
    max_chars: int | None
    min_tokens: int | None
    max_tokens: int | None
    deduplicate: bool
    where: str | None
    validation: float | None
    validation_by: Literal["hash", "id-field"] | None
    validation_part: Literal["training", "validation"] | None
    mode: schema.PackingMode
    packing: schema.PackingMode
    context_length: int | None
    overlap: int
    bos: str | int | bool | None
    eos: str | int | bool | None
    pad_token: str | int | None
    tail: Literal["pad", "drop"]
    columns: schema.Column | Sequence[schema.Column]
    too_long: Literal["drop", "truncate", "keep-last"] | None
    max_documents_per_row: int | None
    multiple_of: int
    bos_aligned: bool
    format: schema.OutputFormat
    dtype: Literal["auto", "uint16", "uint32", "int32", "int64"]
    num_shards: int | None
    unit_bytes: Bytes
    provenance: bool
    unit_range: str | None
    executor: schema.ExecutorName
    ray_address: str | None
    num_proc: int | None
    batch_size: int | None
    writer_batch_size: int | None
    keep_in_memory: bool | None
    shared_filesystem: bool
    stall_timeout: float


class TrainOptions(_Both, total=False):
    """Settings of `tokenmill.train`, in addition to its named arguments."""

    output: Path | None
    counts: Path | Sequence[Path | tuple[Path, float]]
    save_as: schema.SaveFormat | Literal["all"] | Sequence[schema.SaveFormat | Literal["all"]]
    save_counts: Path | None
    ladder: str | None
    verbose: bool
    resume: bool
    checkpoint_every: int | None
    spill_dir: Path | None
    pattern: str
    special_tokens: Path | Sequence[Path]
    special_token: Path | Sequence[Path]
    min_frequency: int
    min_piece_frequency: int
    max_token_length: int | None
    tie_break: schema.TieBreak
    held_out: float
