"""Every setting of `prepare` and `train`, once: flags, YAML keys, keyword arguments and manifest keys.

`output_setting` marks a field that changes the bytes of the output, so that a resumed run must agree on it.
`setting` marks one that changes only speed or messages. A new setting needs a line here and its use; its
flag, its key and its documentation follow.
"""

from dataclasses import field
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from tokenmill.settings.section import (
    Columns,
    EngineName,
    ExecutorName,
    Format,
    Fraction,
    Job,
    Level,
    Marker,
    Names,
    NonNegative,
    OnError,
    OutputFormat,
    PackingMode,
    Positive,
    SaveFormats,
    Seconds,
    Section,
    Setting,
    Share,
    Size,
    TieBreak,
    list_settings,
    output_setting,
    setting,
)

# Ids are below 2^24 everywhere in the project.
LARGEST_VOCABULARY = 1 << 24
# A row is held in memory, and best fit keeps a list of the free space in rows for every length.
LONGEST_ROW = 1 << 27
# The token that ends documents, unless other special tokens are requested.
END_OF_TEXT = "<|endoftext|>"
FORBID = ConfigDict(extra="forbid", defer_build=True)


@dataclass(frozen=True, kw_only=True, config=FORBID)
class SourceConfig(Section):
    """Where documents come from, and what to do with a record that cannot be read."""

    paths: ClassVar[tuple[str, ...]] = ("inputs", "counts")
    inputs: Names = setting((), "Files, globs, directories or URLs.", aliases=("input",))
    counts: Names = setting(
        (),
        "Counts files of save_counts, each with an optional weight: a.parquet:2.0.",
        only="train",
        use="often",
    )
    format: Format = output_setting(
        "auto", "The format of the files; auto goes by name and content.", flag="input_format", use="often"
    )
    text_field: str | None = output_setting(
        None, "The column that holds the text; detected when left out.", use="first"
    )
    template: str | None = output_setting(
        None, 'Text made of several columns, e.g. "{title}\\n\\n{text}".', use="often"
    )
    messages_field: str | None = output_setting(
        None,
        "The column that holds a conversation (role and content, or from and value).",
        only="prepare",
        use="often",
    )
    prompt_field: Names = output_setting(
        (), "The column, or columns, that a completion answers: text or messages.", only="prepare"
    )
    completion_field: str | None = output_setting(
        None, "The column that answers the prompt: text or messages.", only="prepare"
    )
    chat_columns: Names = output_setting(
        (), "Columns that the chat template gets under their own names.", only="prepare"
    )
    id_field: str | None = output_setting(
        None, "The column with a document's id, kept for provenance.", only="prepare"
    )
    txt_mode: Literal["auto", "file", "line", "separator"] = output_setting(
        "auto", "What counts as one document in a .txt file."
    )
    document_separator: str | None = output_setting(
        None, "What separates the documents in a .txt file, e.g. <|endoftext|>.", use="often"
    )
    split: str | None = output_setting(None, "The split of a Hugging Face dataset, e.g. train.")
    subset: str | None = setting(None, "The subset (configuration) of a dataset on the hub.")
    revision: str | None = setting(None, "The branch, tag or commit of a dataset on the hub.")
    on_error: OnError = output_setting("fail", "What to do with a record that cannot be read.", use="often")
    max_errors: NonNegative | None = setting(
        None, "Fail the job (exit 3) if more records than this cannot be read.", only="prepare"
    )
    max_record_bytes: Size = output_setting(256 << 20, "Records longer than this are errors.")
    max_expansion: Positive = setting(2000, "Refuse a compressed file that grows by more than this factor.")


@dataclass(frozen=True, kw_only=True, config=FORBID)
class ChatConfig(Section):
    """How conversations become text, and which part of it is trained on."""

    job: ClassVar[Job | None] = "prepare"
    chat_template: str | None = output_setting(
        None, "A Jinja file, or the name of a template; left out: the tokenizer's own.", use="often"
    )
    train_on: Literal["assistant", "last", "all", "completion"] = output_setting(
        "assistant", "What is trained on: every answer, the last one, all, or the completion.", use="often"
    )
    system: str | None = output_setting(None, "The system message of conversations that have none.")
    chat_variables: Names = output_setting(
        (), "More variables for the template, as name=value, e.g. enable_thinking=false."
    )
    chat_date: str | None = output_setting(
        None, "The date that a template shows, as 2026-01-31; left out: the day the job began."
    )


@dataclass(frozen=True, kw_only=True, config=FORBID)
class TokenizerConfig(Section):
    """Which vocabulary, which engine, and what a special token's string inside a document means."""

    paths: ClassVar[tuple[str, ...]] = ("tokenizer_name",)
    job: ClassVar[Job | None] = "prepare"
    tokenizer_name: str | None = setting(
        None,
        "A directory, a tokenizer.json, a .tiktoken or .model file, or a hub id.",
        flag="tokenizer",
        aliases=("tokenizer_path",),
        use="first",
    )
    pattern: str | None = output_setting(
        None, "The pre-tokenizer, for files that do not carry one (.tiktoken): a family name or a regex."
    )
    strategy: EngineName = setting(
        "auto", "The engine: the native core, Hugging Face tokenizers, or Python processes."
    )
    special: Literal["parse", "text", "forbid"] = output_setting(
        "text", "What the string of a special token inside a document means.", use="often"
    )
    parity_check: bool = setting(True, "First compare native with Hugging Face on a sample.")


@dataclass(frozen=True, kw_only=True, config=FORBID)
class FilterConfig(Section):
    """Which documents are left out before they are written; each reason is counted."""

    job: ClassVar[Job | None] = "prepare"
    drop_blank: bool = output_setting(True, "Leave out documents with nothing but white space.")
    min_chars: NonNegative | None = output_setting(None, "Leave out shorter documents.")
    max_chars: Positive | None = output_setting(None, "Leave out longer documents.")
    min_tokens: NonNegative | None = output_setting(None, "Leave out documents of fewer tokens.")
    max_tokens: Positive | None = output_setting(None, "Leave out documents of more tokens.")
    deduplicate: bool = output_setting(False, "Leave out exact copies of an earlier document.", use="often")
    where: str | None = output_setting(
        None, "Keep only rows for which this is true, e.g. \"lang == 'ko'\".", use="often"
    )
    validation: Share | None = output_setting(
        None, "The share of documents for a dataset of their own, OUTPUT/validation, e.g. 0.5%.", use="often"
    )
    validation_by: Literal["hash", "id-field"] | None = output_setting(
        None, "What selects them: the hash of the text (if left out), or of the id_field's value."
    )
    validation_part: Literal["training", "validation"] | None = output_setting(
        None, "Which of the two datasets to write; left out: both."
    )

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return an empty predicate, an empty range or a share that leaves nothing."""
        if self.where is not None and not self.where.strip():
            return "where", "the predicate is empty, so it would keep everything; write one, or leave it out"
        for low, high in (("min_chars", "max_chars"), ("min_tokens", "max_tokens")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                return low, f"{low} {least} is above {high} {most}, so every document would be left out"
        if self.validation is not None and self.validation >= 1:
            why = f"validation {self.validation:.6g} leaves nothing to train on; choose less, e.g. 0.5%"
            return "validation", why
        for key in ("validation_by", "validation_part"):
            if getattr(self, key) is not None and self.validation is None:
                return key, f"{key} {getattr(self, key)} needs validation, e.g. validation: 0.5%"
        return None


@dataclass(frozen=True, kw_only=True, config=FORBID)
class PackingConfig(Section):
    """How token ids become rows."""

    job: ClassVar[Job | None] = "prepare"
    mode: PackingMode = output_setting(
        "stream",
        "Rows cut when read, one after another, overlapping, documents kept whole, or one row each.\n"
        "Left out: window with a context_length and an overlap, concat with a context_length, else stream.",
        flag="packing",
        use="often",
    )
    context_length: Positive | None = output_setting(None, "Tokens in a row.", use="first")
    overlap: NonNegative = output_setting(
        0, "Tokens that a window shares with the one before it.", use="often"
    )
    bos: Marker = output_setting(None, "A token before each document; left out: as the tokenizer says.")
    eos: Marker = output_setting(
        None, "A token after each document; left out: as the tokenizer says.", use="often"
    )
    pad_token: str | int | None = output_setting(None, "The token that fills up a row.")
    tail: Literal["pad", "drop"] = output_setting(
        "pad", "The last, shorter row: filled up, or dropped and counted."
    )
    columns: Columns = output_setting((), "Extra columns beside the ids.", use="often")
    too_long: Literal["drop", "truncate", "keep-last"] | None = output_setting(
        None,
        "A document longer than a row: dropped, cut at its end, or cut at its start.\n"
        "Left out: conversations in bestfit and pad are cut at their end; others continue in the next row.",
    )
    max_documents_per_row: Positive | None = output_setting(
        None, "The most documents that bestfit puts in a row."
    )

    def find_contradiction(self) -> tuple[str, str] | None:  # noqa: PLR0911
        """Return a length that contradicts another, or a mode that lacks one."""
        length, example = self.context_length, "needs a context_length, e.g. context_length: 2048"
        if length is not None and length > LONGEST_ROW:
            return "context_length", f"context_length is {length}; expected at most {LONGEST_ROW}"
        if self.too_long is not None and length is None:
            return "too_long", f"too_long {self.too_long} {example}"
        if (most := self.max_documents_per_row) is not None and self.mode != "bestfit":
            name = "max_documents_per_row"
            return name, f"{name} {most} is for mode bestfit, but mode is {self.mode}"
        if length is None and self.mode != "stream":
            return "mode", f"mode {self.mode} {example}"
        if length is None:
            return ("overlap", f"overlap {self.overlap} {example}") if self.overlap else None
        if self.overlap >= length:
            fix = f"use at most {length - 1}; an eighth, {length // 8}, is usual"
            return "overlap", f"overlap {self.overlap} is not below context_length {length}: {fix}"
        if self.overlap and self.mode != "window":
            return "overlap", f"overlap {self.overlap} is for mode window, but mode is {self.mode}"
        return None


@dataclass(frozen=True, kw_only=True, config=FORBID)
class OutputConfig(Section):
    """What is written, and where."""

    paths: ClassVar[tuple[str, ...]] = ("path", "save_counts")
    path: str | None = setting(
        None, "The directory to write to.", flag="output", aliases=("output_dir",), use="first"
    )
    format: OutputFormat = output_setting(
        "tokenmill",
        "The format of the files that are written.",
        only="prepare",
        flag="format",
        aliases=("output_format",),
        use="first",
    )
    dtype: Literal["auto", "uint16", "uint32", "int32", "int64"] = output_setting(
        "auto", "Bytes per token; auto takes the smallest that holds the vocabulary.", only="prepare"
    )
    num_shards: Positive | None = output_setting(
        None, "How many files; left out: one per unit.", only="prepare", use="often"
    )
    unit_bytes: Size = output_setting(
        64 << 20, "Input bytes per unit of work, each one shard.", only="prepare"
    )
    provenance: bool = output_setting(
        False, "Keep the file and row that each document came from.", only="prepare"
    )
    report: bool = setting(True, "Write report.html beside the data.")
    save_as: SaveFormats = setting(
        ("hf",), "The formats in which a trained tokenizer is saved.", only="train", use="often"
    )
    save_counts: str | None = setting(
        None, "Save the counts here, for other vocabulary sizes.", only="train", use="often"
    )
    ladder: str | None = setting(
        None, "Smaller sizes from the same run, in subdirectories, e.g. 16k,32k.", only="train", use="often"
    )


@dataclass(frozen=True, kw_only=True, config=FORBID)
class ExecutionConfig(Section):
    """How fast and how verbose; nothing here may change the bytes that come out."""

    paths: ClassVar[tuple[str, ...]] = ("spill_dir",)
    executor: ExecutorName = setting(
        "local", "Where the work runs: this machine, or a Ray cluster.", use="often"
    )
    ray_address: str | None = setting(None, "An existing Ray cluster, or auto.")
    unit_range: str | None = setting(
        None, "Only part i of n of the units, as i/n, for job arrays.", only="prepare"
    )
    threads: Positive | None = setting(
        None, "Rust threads; automatic: the cores this process may use.", aliases=("workers",), use="often"
    )
    num_proc: Positive | None = setting(
        None,
        "Processes for the python engine, automatic: half the cores; for others, the most threads.",
        only="prepare",
    )
    batch_size: Positive | None = setting(
        None, "Documents encoded at once; automatic: by size and memory.", only="prepare"
    )
    writer_batch_size: Positive | None = setting(
        None, "Documents written at once; automatic.", only="prepare"
    )
    keep_in_memory: bool | None = setting(None, "Write each shard in one go; automatic.", only="prepare")
    memory_budget: Size | None = setting(
        None, "Bytes held at once; automatic: a share of the free memory.", use="often"
    )
    show_progress: bool = setting(True, "Show a bar on a terminal, a line every 30 s elsewhere.")
    verbose_level: Level = setting("INFO", "The lowest level of log lines that are shown.")
    log_json: bool = setting(False, "Log one JSON object per line.")
    verbose: bool = setting(False, "Log memory and CPU while merging.", only="train")
    resume: bool = setting(
        False, "Continue where an interrupted training stopped.", only="train", use="often"
    )
    checkpoint_every: Positive | None = setting(
        None, "Merges between checkpoints; automatic: every half minute.", only="train"
    )
    spill_dir: str | None = setting(
        None, "Where counts beyond the memory budget go; automatic: the output.", only="train"
    )
    shared_filesystem: bool = setting(True, "Ranks on other hosts see the output directory.", only="prepare")
    stall_timeout: Seconds = setting(
        600.0, "Seconds that ranks wait for a leader which does not start.", only="prepare"
    )


@dataclass(frozen=True, kw_only=True, config=FORBID)
class TrainingConfig(Section):
    """What determines a trained vocabulary."""

    job: ClassVar[Job | None] = "train"
    vocab_size: Positive = output_setting(
        32_000, "Tokens in all: the special tokens, the 256 bytes, the merges.", use="first"
    )
    pattern: str = output_setting(
        "gpt2",
        "Where texts are cut: a family (gpt2, cl100k, o200k, llama3…), or a regex that matches pieces.",
        use="first",
    )
    special_tokens: Names = output_setting(
        (END_OF_TEXT,),
        "Special tokens, instead of the default; they get the lowest ids, and no piece spans one.",
        flag="special_token",
        use="first",
    )
    min_frequency: NonNegative = output_setting(0, "Stop when the best pair occurs less often.", use="often")
    min_piece_frequency: Positive = output_setting(1, "Leave out rarer pieces; this changes the result.")
    max_token_length: Positive | None = output_setting(None, "No token may be longer than this many bytes.")
    tie_break: TieBreak = output_setting(
        "huggingface", "Among equal counts, take the lowest ids or the greatest bytes."
    )
    held_out: Fraction = output_setting(
        0.0, "The share of the documents that is held out, to measure on.", use="often"
    )

    @property
    def model_tokens(self) -> int:
        """How many tokens the merges may make, including the 256 bytes."""
        return self.vocab_size - len(self.special_tokens)

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return special tokens that are impossible, or a size out of bounds."""
        if problem := _find_special_problem(self.special_tokens):
            return "special_tokens", problem
        if not _is_unicode(self.pattern):
            return "pattern", f"pattern {self.pattern!r} holds a lone surrogate, which no text has"
        least, special = 256 + len(self.special_tokens), len(self.special_tokens)
        if not least <= self.vocab_size <= LARGEST_VOCABULARY:
            parts = f"256 bytes and {special} special token{'s' * (special != 1)}"
            parts += "; --no-special for none" if special else ""
            found = f"vocab_size is {self.vocab_size}; expected {least} ({parts}) to {LARGEST_VOCABULARY}"
            return "vocab_size", found
        if self.held_out >= 1:
            return "held_out", f"held_out is {self.held_out}; expected a fraction from 0 to below 1"
        return None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _find_special_problem(tokens: tuple[str, ...]) -> str | None:
    for place, token in enumerate(tokens):
        if not token:
            return "a special token is empty; give each one some text"
        if not _is_unicode(token):
            return f"special token {token!r} holds a lone surrogate, which no text has"
        if len(token.encode()) == 1:
            return f"special token {token!r} is a single byte, which the vocabulary already has"
        if token in tokens[:place]:
            return f"special token {token!r} is listed twice; list each one once"
    return None


@dataclass(frozen=True, kw_only=True, config=FORBID)
class JobConfig(Section):
    """A whole job, as one YAML file or one set of keyword arguments."""

    source: SourceConfig = field(default_factory=SourceConfig)
    chat: ChatConfig = field(default_factory=ChatConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    filter: FilterConfig = field(default_factory=FilterConfig)
    packing: PackingConfig = field(default_factory=PackingConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def list_deciding_settings(self) -> dict[str, Any]:
        """Return the settings that change the bytes of a dataset, as `{"section.key": value}`."""
        dump = self.to_dict()
        return {
            name: dump[name.partition(".")[0]][name.partition(".")[2]]
            for name, each in SETTINGS.items()
            if each.affects_output and each.only != "train"
        }


SECTIONS: dict[str, type[Section]] = {
    "source": SourceConfig,
    "chat": ChatConfig,
    "tokenizer": TokenizerConfig,
    "filter": FilterConfig,
    "packing": PackingConfig,
    "output": OutputConfig,
    "execution": ExecutionConfig,
    "training": TrainingConfig,
}
SETTINGS: dict[str, Setting] = {
    f"{section}.{key}": each
    for section, model in SECTIONS.items()
    for key, each in list_settings(model).items()
}
