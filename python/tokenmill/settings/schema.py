"""Every setting of `prepare` and `train`, once: flags, YAML keys, keyword arguments and manifest keys.

`identity` marks a field that changes the bytes of the output, so that a resumed run must agree on it.
`setting` marks one that changes only speed or messages. A new setting needs a line here and its use; its
flag, its key and its documentation follow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from os import PathLike, fspath
from typing import Annotated, Any, ClassVar, Literal

from tokenmill.base.words import amount, parse_size
from tokenmill.settings.section import Job, Section, Setting, identity, list_settings, setting

# Ids are below 2^24 everywhere in the project.
LARGEST_VOCABULARY = 1 << 24
# A row is held in memory, and best fit keeps a list of the free space in rows for every length.
LONGEST_ROW = 1 << 27
# The token that ends documents, unless other special tokens are requested.
END_OF_TEXT = "<|endoftext|>"


def _read_share(value: Any) -> Any:
    """Read `"0.5%"` as `0.005`."""
    is_percent = isinstance(value, str) and value.strip().endswith("%")
    return float(value.strip()[:-1]) / 100 if is_percent else value


def _read_whole(value: Any) -> Any:
    """Reject `true`, which Python treats as 1, and accept NumPy integers."""
    if isinstance(value, bool):
        raise ValueError("a switch is not a number")  # noqa: TRY004 - as for any other invalid value
    return value.__index__() if hasattr(value, "__index__") else value


def _read_list(value: Any) -> Any:
    """Accept one item as a list, a path as its text, and `(path, weight)` as `path:weight`."""
    if isinstance(value, str | PathLike):
        value = (value,)
    if not isinstance(value, list | tuple):
        return value
    items = [f"{fspath(item[0])}:{item[1]}" if isinstance(item, tuple) else item for item in value]
    return tuple(fspath(item) if isinstance(item, PathLike) else item for item in items)


def _read_size(value: Any) -> Any:
    """Read `"512MiB"` as a number."""
    return parse_size(value) if isinstance(value, str) else value


def _translate(**words: Any) -> Callable[[Any], Any]:
    """Return a function that replaces these words, whatever their case."""
    return lambda value: words.get(value.lower(), value) if isinstance(value, str) else value


Positive = Annotated[int, (">", 0), _read_whole]
NonNegative = Annotated[int, ("≥", 0), _read_whole]
# The text in an annotation is its description, a tuple a bound, a function reads a value.
Size = Annotated[int, (">", 0), _read_whole, _read_size, "size, e.g. 512MiB"]
Count = Annotated[int, (">", 0), _read_whole, _read_size, "number, e.g. 32000 or 32k"]
Share = Annotated[float, (">", 0), _read_share, "a share above 0, e.g. 0.5%"]
Seconds = Annotated[float, (">", 0)]
Fraction = Annotated[float, ("≥", 0)]
Names = Annotated[tuple[str, ...], _read_list]
# `--eos false` disables the token; it does not name one.
Marker = Annotated[str | int | bool | None, _translate(true=True, false=False)]
Level = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR"],
    _translate(debug="DEBUG", info="INFO", warning="WARNING", error="ERROR"),
]
# "fast" and "slow" are the names of transformers.
EngineName = Annotated[
    Literal["auto", "native", "huggingface", "python"], _translate(fast="huggingface", slow="python")
]
ExecutorName = Literal["local", "ray"]
OnError = Literal["fail", "skip", "replace"]
Format = Literal["auto", "txt", "jsonl", "json", "csv", "tsv", "parquet", "arrow", "hf"]
OutputFormat = Literal[
    "arrow", "datatrove", "litdata", "mds", "megatron", "npy", "olmo", "parquet", "tokenmill"
]
Column = Literal["attention_mask", "document_ids", "labels", "loss_mask", "position_ids"]
Columns = Annotated[tuple[Column, ...], _read_list]
PackingMode = Literal["stream", "concat", "bestfit", "separate", "window", "pad"]
TieBreak = Literal["huggingface", "lexicographic"]
SaveFormat = Literal["hf", "tiktoken", "vocab-merges", "minbpe"]
SaveFormats = Annotated[tuple[SaveFormat | Literal["all"], ...], _read_list]


@dataclass(frozen=True, kw_only=True)
class SourceConfig(Section):
    """The input documents, their fields, and the policy for invalid records."""

    paths: ClassVar[tuple[str, ...]] = ("inputs", "counts")
    inputs: Names = setting((), "Files, globs, directories or URLs.", aliases=("input",))
    counts: Names = setting((), "Saved counts, e.g. a.parquet:2.0 with a weight.", "often", only="train")
    format: Format = identity("auto", "The format of the input files.", "often", flag="input_format")
    text_field: str | None = identity(None, "The column with the text. Default: detected.", "first")
    template: str | None = identity(None, 'Combine columns to a text, e.g. "{title}\\n\\n{text}".', "often")
    messages_field: str | None = identity(None, "The column with a conversation.", "often", only="prepare")
    prompt_field: Names = identity((), "The columns of the prompt.", only="prepare")
    completion_field: str | None = identity(None, "The column with the answer to the prompt.", only="prepare")
    ids_field: str | None = identity(None, "The column with token ids, e.g. input_ids.", only="prepare")
    chat_columns: Names = identity((), "Columns to pass to the chat template.", only="prepare")
    id_field: str | None = identity(None, "The column with a document's id.", only="prepare")
    txt_mode: Literal["auto", "file", "line", "separator"] = identity("auto", "How .txt files are split.")
    document_separator: str | None = identity(None, "The separator of documents in a .txt file.", "often")
    split: str | None = identity(None, "The split of a Hugging Face dataset, e.g. train.")
    subset: str | None = setting(None, "The subset (configuration) of a dataset on the Hub.")
    revision: str | None = setting(None, "The branch, tag or commit of a dataset on the Hub.")
    on_error: OnError = identity("fail", "The policy for invalid records.", "often")
    max_errors: NonNegative | None = setting(None, "Exit with 3 above this many bad records.", only="prepare")
    max_record_bytes: Size = identity(256 << 20, "The maximum size of a record.")

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return the second of two fields for the document, or a prompt without an answer."""
        texts = ("text_field", "template", "messages_field", "prompt_field", "ids_field")
        given = [name for name in texts if getattr(self, name)]
        if len(given) > 1:
            return given[1], f"{' and '.join(given)} are both given; keep one of them"
        if self.prompt_field and not self.completion_field:
            return "prompt_field", f"prompt_field {', '.join(self.prompt_field)} needs a completion_field"
        return None


@dataclass(frozen=True, kw_only=True)
class ChatConfig(Section):
    """How conversations are rendered, and which part of them is trained on."""

    job: ClassVar[Job | None] = "prepare"
    chat_template: str | None = identity(None, "A Jinja file or a name. Default: the tokenizer's.", "often")
    train_on: str = identity("assistant", "assistant, last, completion, all; or parts of answers.", "often")
    one_sample_per_answer: bool = identity(False, "Write one document for each answer, ending with it.")
    mask_style: Literal["tokenmill", "trl"] = identity("tokenmill", "Trained spans: ours or those of TRL.")
    system: str | None = identity(None, "The system message for conversations without one.")
    chat_variables: Names = identity((), "Variables for the template, as name=value.")
    chat_date: str | None = identity(None, "The date in templates. Default: the start of the job.")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Section):
    """The vocabulary, the engine, and the treatment of special tokens in documents."""

    paths: ClassVar[tuple[str, ...]] = ("tokenizer_name",)
    job: ClassVar[Job | None] = "prepare"
    tokenizer_name: str | None = setting(
        None, "A directory, a file or a Hub id.", "first", flag="tokenizer", aliases=("tokenizer_path",)
    )
    pattern: str | None = identity(None, "The pre-tokenizer, for files without one: a family or a regex.")
    strategy: EngineName = setting("auto", "The engine that encodes.")
    special: Literal["parse", "text", "forbid"] = identity("text", "Special tokens in documents.", "often")
    parity_check: bool = setting(True, "Compare native with Hugging Face on a sample first.")


@dataclass(frozen=True, kw_only=True)
class FilterConfig(Section):
    """Filters. Dropped documents are counted by reason."""

    job: ClassVar[Job | None] = "prepare"
    drop_blank: bool = identity(True, "Drop documents with only white space.")
    min_chars: NonNegative | None = identity(None, "Drop shorter documents.")
    max_chars: Positive | None = identity(None, "Drop longer documents.")
    min_tokens: NonNegative | None = identity(None, "Drop documents with fewer tokens.")
    max_tokens: Positive | None = identity(None, "Drop documents with more tokens.")
    deduplicate: bool = identity(False, "Drop exact copies of earlier documents.", "often")
    where: str | None = identity(None, "Keep records where this is true, e.g. \"lang == 'ko'\".", "often")
    validation: Share | None = identity(None, "The share for OUTPUT/validation, e.g. 0.5%.", "often")
    validation_by: Literal["hash", "id-field"] | None = identity(None, "What selects them. Default: hash.")
    validation_part: Literal["training", "validation"] | None = identity(None, "The part. Default: both.")

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return an empty predicate, an empty range or a share that leaves nothing."""
        if self.where is not None and not self.where.strip():
            return "where", "the predicate is empty, so it would keep everything; write one, or omit it"
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


@dataclass(frozen=True, kw_only=True)
class PackingConfig(Section):
    """How token ids become rows."""

    job: ClassVar[Job | None] = "prepare"
    mode: PackingMode = identity(
        "stream", "How documents become rows. Default: concat with a context_length.", "often", flag="packing"
    )
    context_length: Positive | None = identity(None, "Tokens in a row.", "first")
    overlap: NonNegative = identity(0, "Tokens that a row repeats of the one before it.", "often")
    bos: Marker = identity(None, "A token before each document; true for the tokenizer's. Default: none.")
    eos: Marker = identity(None, "A token after each document. Default: the tokenizer's.", "often")
    pad_token: str | int | None = identity(None, "The token for padding.")
    tail: Literal["pad", "drop"] = identity("pad", "Pad or drop the last, shorter row.")
    columns: Columns = identity((), "Additional columns.", "often")
    too_long: Literal["drop", "truncate", "keep-last"] | None = identity(
        None, "A document longer than a row. Default: cut if it is a conversation, else continued."
    )
    max_documents_per_row: Positive | None = identity(None, "The most documents that bestfit puts in a row.")
    multiple_of: Positive = identity(1, "Pad each document's part of a row to a multiple of this.")
    bos_aligned: bool = identity(False, "Fill rows of bestfit with the start of a document, not padding.")

    def find_contradiction(self) -> tuple[str, str] | None:  # noqa: PLR0911
        """Return a length that contradicts another, or a mode that lacks one."""
        length, example = self.context_length, "needs a `context_length`, e.g. 2048"
        if length is not None and length > LONGEST_ROW:
            return "context_length", f"context_length is {length}; expected at most {LONGEST_ROW}"
        if self.too_long is not None and length is None:
            return "too_long", f"too_long {self.too_long} {example}"
        if length is None and self.mode != "stream":
            return "mode", f"mode {self.mode} {example}"
        if length is None:
            return ("overlap", f"overlap {self.overlap} {example}") if self.overlap else None
        if self.overlap >= length:
            fix = f"use at most {length - 1}; an eighth, {length // 8}, is usual"
            return "overlap", f"overlap {self.overlap} is not below context_length {length}: {fix}"
        if self.overlap and self.mode in {"bestfit", "pad"}:
            return "overlap", f"overlap {self.overlap} is for mode window, but mode is {self.mode}"
        return None


@dataclass(frozen=True, kw_only=True)
class OutputConfig(Section):
    """The output directory, format and files."""

    paths: ClassVar[tuple[str, ...]] = ("path", "save_counts")
    path: str | None = setting(None, "The output directory.", "first", flag="output", aliases=("output_dir",))
    format: OutputFormat = identity(
        "tokenmill", "The output format.", "first", only="prepare", flag="format", aliases=("output_format",)
    )
    dtype: Literal["auto", "uint16", "uint32", "int32", "int64"] = identity(
        "auto", "The type of token ids; auto: the smallest.", only="prepare"
    )
    num_shards: Positive | None = identity(None, "Shards. Default: one per unit.", "often", only="prepare")
    unit_bytes: Size = identity(64 << 20, "Input bytes per unit of work, each one shard.", only="prepare")
    provenance: bool = identity(False, "Record the file and row of each document.", only="prepare")
    report: bool = setting(True, "Write report.html to the output.")
    save_as: SaveFormats = setting(("hf",), "The formats to save the tokenizer in.", "often", only="train")
    save_counts: str | None = setting(None, "A file for the counts, for other sizes.", "often", only="train")
    ladder: str | None = setting(None, "Smaller sizes to save as well, e.g. 16k,32k.", "often", only="train")


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig(Section):
    """Speed, memory and logging. Nothing here changes the output bytes."""

    paths: ClassVar[tuple[str, ...]] = ("spill_dir",)
    executor: ExecutorName = setting(
        "local", "Run on this machine or on a Ray cluster.", "often", only="prepare"
    )
    ray_address: str | None = setting(None, "The address of a Ray cluster, or auto.", only="prepare")
    unit_range: str | None = setting(None, "Run only part i of n of the units, as i/n.", only="prepare")
    threads: Positive | None = setting(
        None, "The number of threads; automatic: usable cores.", "often", aliases=("workers",)
    )
    num_proc: Positive | None = setting(None, "Processes of the python engine; automatic.", only="prepare")
    batch_size: Positive | None = setting(None, "Documents per encoding call; automatic.", only="prepare")
    writer_batch_size: Positive | None = setting(None, "No effect; for compatibility.", only="prepare")
    keep_in_memory: bool | None = setting(None, "No effect; for compatibility.", only="prepare")
    memory_budget: Size | None = setting(None, "Memory for text and tokens; automatic.", "often")
    show_progress: bool = setting(True, "Show a progress bar, or a line every 30 s.")
    verbose_level: Level = setting("INFO", "The minimum level of log lines.")
    verbose: bool = setting(False, "Log memory and CPU while merging.", only="train")
    resume: bool = setting(False, "Resume an interrupted training.", "often", only="train")
    checkpoint_every: Positive | None = setting(None, "Merges between checkpoints; automatic.", only="train")
    spill_dir: str | None = setting(None, "Directory of spilled counts; automatic.", only="train")
    shared_filesystem: bool = setting(True, "True if other hosts see the output.", only="prepare")
    stall_timeout: Seconds = setting(600.0, "Seconds that ranks wait for a leader.", only="prepare")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Section):
    """Settings that determine a trained vocabulary."""

    job: ClassVar[Job | None] = "train"
    vocab_size: Count = identity(32_000, "The number of tokens: special tokens, 256 bytes, merges.", "first")
    pattern: str = identity("gpt2", "A family (gpt2, cl100k, o200k, llama3…), or a regex of pieces.", "first")
    special_tokens: Names = identity(
        (END_OF_TEXT,), "Special tokens, instead of the default.", "first", flag="special_token"
    )
    min_frequency: NonNegative = identity(0, "Stop when the most frequent pair occurs less often.", "often")
    min_piece_frequency: Positive = identity(1, "Ignore rarer pieces. This changes the result.")
    max_token_length: Positive | None = identity(None, "The maximum number of bytes in a token.")
    tie_break: TieBreak = identity("huggingface", "Among equal counts: lowest ids or greatest bytes.")
    held_out: Fraction = identity(0.0, "The share of documents to hold out for measurement.", "often")

    @property
    def model_tokens(self) -> int:
        """Return the maximum number of tokens without special tokens."""
        return self.vocab_size - len(self.special_tokens)

    def find_contradiction(self) -> tuple[str, str] | None:
        """Return special tokens that are impossible, or a size out of bounds."""
        if problem := _find_special_problem(self.special_tokens):
            return "special_tokens", problem
        least, special = 256 + len(self.special_tokens), len(self.special_tokens)
        if not least <= self.vocab_size <= LARGEST_VOCABULARY:
            parts = f"256 bytes and {amount(special, 'special token')}; `special_tokens=[]` for none"
            found = f"vocab_size is {self.vocab_size}; expected {least} ({parts}) to {LARGEST_VOCABULARY}"
            return "vocab_size", found
        if self.held_out >= 1:
            return "held_out", f"held_out is {self.held_out}; expected a fraction from 0 to below 1"
        return None


def _find_special_problem(tokens: tuple[str, ...]) -> str | None:
    for place, token in enumerate(tokens):
        if not token:
            return "a special token is empty; give each one some text"
        if len(token) == 1 and token.isascii():
            return f"special token {token!r} is a single byte, which the vocabulary already has"
        if token in tokens[:place]:
            return f"special token {token!r} is listed twice; list each one once"
    return None


@dataclass(frozen=True, kw_only=True)
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


SECTIONS: dict[str, type[Section]] = {each.name: each.type for each in fields(JobConfig)}  # type: ignore[misc]
SETTINGS: dict[str, Setting] = {
    f"{section}.{key}": each
    for section, model in SECTIONS.items()
    for key, each in list_settings(model).items()
}
