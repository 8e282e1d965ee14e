"""The one schema. Flags, fields, YAML keys and manifest keys share these spellings.

Each model is frozen and refuses unknown keys. Fields listed in `FINGERPRINTED` change the bytes that
come out, so a resumed run must agree on them; all the others change only speed or words.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]
OnError = Literal["fail", "skip", "replace"]
Format = Literal["auto", "txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "hf"]
OutputFormat = Literal["tokenmill", "megatron", "arrow", "parquet", "npy", "mds", "litdata"]
PackingMode = Literal["stream", "concat", "window", "bestfit", "pad"]
Column = Literal["attention_mask", "labels", "position_ids", "document_ids"]


class Section(BaseModel):
    """A frozen group of settings that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class SourceConfig(Section):
    """Where documents come from, and what to do with a record that cannot be read."""

    inputs: tuple[str, ...] = ()
    format: Format = "auto"
    text_field: str | None = None
    template: str | None = None
    id_field: str | None = None
    txt_mode: Literal["auto", "file", "line", "separator"] = "auto"
    document_separator: str | None = None
    split: str | None = None
    on_error: OnError = "fail"
    max_errors: NonNegative | None = None
    max_record_bytes: Positive = 2 << 30
    max_expansion: Positive = 2000


class TokenizerConfig(Section):
    """Which vocabulary, which engine, and what a special token's string inside a document means."""

    tokenizer_name: str | None = None
    pattern: str | None = None
    strategy: Literal["auto", "native", "fast", "slow"] = "auto"
    special: Literal["parse", "text", "forbid"] = "text"
    parity_check: bool = True


class FilterConfig(Section):
    """Which documents are left out before they are written; each reason is counted."""

    drop_blank: bool = True
    min_chars: NonNegative | None = None
    max_chars: Positive | None = None
    min_tokens: NonNegative | None = None
    max_tokens: Positive | None = None
    deduplicate: bool = False
    where: str | None = None


class PackingConfig(Section):
    """How token ids become rows."""

    mode: PackingMode = "stream"
    context_length: Positive | None = None
    overlap: NonNegative = 0
    bos: str | int | bool | None = None
    eos: str | int | bool | None = None
    pad_token: str | int | None = None
    tail: Literal["pad", "drop"] = "pad"
    columns: tuple[Column, ...] = ()


class OutputConfig(Section):
    """What is written, and where."""

    path: str | None = None
    format: OutputFormat = "tokenmill"
    dtype: Literal["auto", "uint16", "uint32", "int32", "int64"] = "auto"
    num_shards: Positive | None = None
    unit_bytes: Positive = 64 << 20
    provenance: bool = False
    report: bool = True


class ExecutionConfig(Section):
    """How fast and how loud; nothing here may change the bytes that come out."""

    executor: Literal["local", "ray"] = "local"
    ray_address: str | None = None
    unit_range: str | None = None
    threads: Positive | None = None
    num_proc: Positive | None = None
    batch_size: Positive | None = None
    writer_batch_size: Positive | None = None
    keep_in_memory: bool | None = None
    memory_budget: Positive | None = None
    show_progress: bool = True
    verbose_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_json: bool = False
    shared_filesystem: bool = True
    leader_death: Literal["takeover", "fail"] = "takeover"
    stall_timeout: Annotated[float, Field(gt=0)] = 600.0


class JobConfig(Section):
    """A whole job, as one YAML file or one set of keyword arguments."""

    source: SourceConfig = SourceConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    filter: FilterConfig = FilterConfig()
    packing: PackingConfig = PackingConfig()
    output: OutputConfig = OutputConfig()
    execution: ExecutionConfig = ExecutionConfig()

    def fingerprinted(self) -> dict[str, Any]:
        """The settings that change the bytes, as `{"section.key": value}`."""
        dump = self.model_dump(mode="json")
        return {f"{s}.{key}": dump[s][key] for s, keys in FINGERPRINTED.items() for key in keys}


FINGERPRINTED: dict[str, tuple[str, ...]] = {
    "source": (
        "format",
        "text_field",
        "template",
        "id_field",
        "txt_mode",
        "document_separator",
        "split",
        "on_error",
        "max_record_bytes",
    ),
    "tokenizer": ("pattern", "special"),
    "filter": tuple(FilterConfig.model_fields),
    "packing": tuple(PackingConfig.model_fields),
    "output": ("format", "dtype", "num_shards", "unit_bytes", "provenance"),
}
