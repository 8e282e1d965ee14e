"""The one schema. Flags, fields, YAML keys and manifest keys share these spellings.

Each section is frozen and refuses unknown keys. Fields listed in `FINGERPRINTED` change the bytes that
come out, so a resumed run must agree on them; all the others change only speed or words. The string
under a field is its help (settings/meanings.py): `tokenmill config schema`, `config init`, `--help` and
docs/configuration.md show it.
"""

from typing import Any, Literal

from tokenmill.settings.fields import (
    Column,
    ExecutorName,
    Format,
    Level,
    Marker,
    Names,
    NonNegative,
    OnError,
    OutputFormat,
    PackingMode,
    Positive,
    Seconds,
    Size,
)
from tokenmill.settings.section import Section


class SourceConfig(Section):
    """Where documents come from, and what to do with a record that cannot be read."""

    inputs: Names = ()
    """Files, globs, directories or URLs."""
    format: Format = "auto"
    """What the files are; auto goes by name and content."""
    text_field: str | None = None
    """The column that holds the text; detected when left out."""
    template: str | None = None
    """Text made of several columns, e.g. "{title}\\n\\n{text}"."""
    id_field: str | None = None
    """The column that names a document, kept for provenance."""
    txt_mode: Literal["auto", "file", "line", "separator"] = "auto"
    """What one document of a .txt file is."""
    document_separator: str | None = None
    """What stands between documents of a .txt file, e.g. <|endoftext|>."""
    split: str | None = None
    """The split of a Hugging Face dataset, e.g. train."""
    on_error: OnError = "fail"
    """What to do with a record that cannot be read."""
    max_errors: NonNegative | None = None
    """How many records may be left out before the job counts as failed (exit 3)."""
    max_record_bytes: Size = 2 << 30
    """A longer record is an error."""
    max_expansion: Positive = 2000
    """A compressed file that grows by more than this factor is refused."""


class TokenizerConfig(Section):
    """Which vocabulary, which engine, and what a special token's string inside a document means."""

    tokenizer_name: str | None = None
    """A directory, a tokenizer.json, a .tiktoken or .model file, or a hub id."""
    pattern: str | None = None
    """The pre-tokenizer, for files that do not carry one (.tiktoken): a family name or a regex."""
    strategy: Literal["auto", "native", "fast", "slow"] = "auto"
    """Our core, Hugging Face's threads, or Python worker processes."""
    special: Literal["parse", "text", "forbid"] = "text"
    """What the string of a special token inside a document is."""
    parity_check: bool = True
    """Compare native with Hugging Face on a sample of your documents first."""


class FilterConfig(Section):
    """Which documents are left out before they are written; each reason is counted."""

    drop_blank: bool = True
    """Leave out documents with nothing but white space."""
    min_chars: NonNegative | None = None
    """Leave out shorter documents."""
    max_chars: Positive | None = None
    """Leave out longer documents."""
    min_tokens: NonNegative | None = None
    """Leave out documents of fewer tokens."""
    max_tokens: Positive | None = None
    """Leave out documents of more tokens."""
    deduplicate: bool = False
    """Leave out exact copies of an earlier document."""
    where: str | None = None
    """Keep only rows for which this is true, e.g. "lang == 'ko'"."""

    def contradiction(self) -> tuple[str, str] | None:
        """A smallest size above the largest."""
        for low, high in (("min_chars", "max_chars"), ("min_tokens", "max_tokens")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                return low, f"{low} {least} is above {high} {most}, so every document would be left out"
        return None


class PackingConfig(Section):
    """How token ids become rows."""

    mode: PackingMode = "stream"
    """Rows cut when read, one after another, overlapping, documents kept whole, or one row each.

    Left out: window with a context_length and an overlap, concat with a context_length, else stream."""
    context_length: Positive | None = None
    """Tokens in a row."""
    overlap: NonNegative = 0
    """Tokens that a window shares with the one before; below context_length."""
    bos: Marker = None
    """A token before each document; left out: as the tokenizer says."""
    eos: Marker = None
    """A token after each document; left out: as the tokenizer says."""
    pad_token: str | int | None = None
    """What fills a row."""
    tail: Literal["pad", "drop"] = "pad"
    """The last, shorter row: filled up, or left out and counted."""
    columns: tuple[Column, ...] = ()
    """More columns beside the ids."""

    @classmethod
    def completed(cls, given: dict[str, Any]) -> dict[str, Any]:
        """A context length without a mode asks for rows: with an overlap windows, else one after another."""
        if given.get("mode") is None and given.get("context_length") is not None:
            return {**given, "mode": "window" if given.get("overlap") else "concat"}
        return given

    def contradiction(self) -> tuple[str, str] | None:
        """Lengths that do not go together, or a mode that lacks one."""
        length = self.context_length
        if length is None and self.mode != "stream":
            return "mode", f"mode {self.mode} needs a context_length, e.g. context_length: 2048"
        if length is None and self.overlap:
            return "overlap", f"overlap {self.overlap} needs a context_length, e.g. context_length: 2048"
        if length is not None and self.overlap >= length:
            fix = f"take at most {length - 1}; an eighth, {length // 8}, is usual"
            return "overlap", f"overlap {self.overlap} is not below context_length {length}: {fix}"
        if self.overlap and self.mode != "window":
            return "overlap", f"overlap {self.overlap} is for mode window, and mode is {self.mode}"
        return None


class OutputConfig(Section):
    """What is written, and where."""

    path: str | None = None
    """The directory of the dataset."""
    format: OutputFormat = "tokenmill"
    """The files' layout."""
    dtype: Literal["auto", "uint16", "uint32", "int32", "int64"] = "auto"
    """Bytes per token; auto takes the smallest that holds the vocabulary."""
    num_shards: Positive | None = None
    """How many files; left out: one per unit."""
    unit_bytes: Size = 64 << 20
    """Input bytes per unit of work, each one shard."""
    provenance: bool = False
    """Keep, for each document, the file and row it came from."""
    report: bool = True
    """Write report.html beside the data."""


class ExecutionConfig(Section):
    """How fast and how loud; nothing here may change the bytes that come out."""

    executor: ExecutorName = "local"
    """Who does the units."""
    ray_address: str | None = None
    """An existing Ray cluster, or auto."""
    unit_range: str | None = None
    """Only part i of n of the units, as i/n, for job arrays."""
    threads: Positive | None = None
    """Rust threads; automatic: the cores this process may use."""
    num_proc: Positive | None = None
    """Worker processes of a slow tokenizer (automatic: half the cores); for any other, the most threads."""
    batch_size: Positive | None = None
    """Documents encoded at once; automatic: by document size and memory."""
    writer_batch_size: Positive | None = None
    """Documents written at once; automatic."""
    keep_in_memory: bool | None = None
    """Gather a shard in memory and write it in one go; automatic: by free memory and disk speed."""
    memory_budget: Size | None = None
    """Bytes of text and tokens in flight; automatic: a share of the free memory."""
    show_progress: bool = True
    """A bar on a terminal, a line every 30 s elsewhere."""
    verbose_level: Level = "INFO"
    """The least important line that is shown."""
    log_json: bool = False
    """One JSON object per line."""
    shared_filesystem: bool = True
    """Ranks on other hosts see the output directory."""
    leader_death: Literal["takeover", "fail"] = "takeover"
    """What the waiting ranks do when the one that prepares dies."""
    stall_timeout: Seconds = 600.0
    """Seconds without progress after which the one that prepares counts as dead."""


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
        dump = self.to_dict()
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
    "filter": tuple(FilterConfig.settings),
    "packing": tuple(PackingConfig.settings),
    "output": ("format", "dtype", "num_shards", "unit_bytes", "provenance"),
}
