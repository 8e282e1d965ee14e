"""`tokenmill.prepare`: turn raw text into a dataset that every rank can memory-map."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack, overload

from tokenmill.base import logs
from tokenmill.base.durable import readable_json
from tokenmill.datasets.dataset import Dataset
from tokenmill.datasets.formats.format import find_format
from tokenmill.datasets.ledger.plan import Plan, load_plan
from tokenmill.datasets.ledger.selection import TRAINING, VALIDATION
from tokenmill.datasets.remote import Remote
from tokenmill.datasets.store import replace_file
from tokenmill.errors import ConfigError, InputNotFoundError, TokenizerNotFoundError
from tokenmill.pipeline.job import Job, make_job
from tokenmill.pipeline.output import explain_faults
from tokenmill.pipeline.ranks import has_other_ranks
from tokenmill.pipeline.run import Run
from tokenmill.settings.options import PrepareOptions
from tokenmill.settings.resolve import SETTINGS_FILES, Resolved, from_options
from tokenmill.settings.schema import JobConfig
from tokenmill.sources import InputFile, discover, infer_fields
from tokenmill.sources.fields import list_record_fields
from tokenmill.sources.stores import is_remote, join_address
from tokenmill.tokenizer.tokenizer import Tokenizer

Names = str | PathLike[str] | Sequence[str | PathLike[str]]
Address = str | PathLike[str] | None


@overload
def prepare(
    inputs: Names | None = None,
    tokenizer: Any = None,
    output: Address = None,
    *,
    config: Address = None,
    dataset: None = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset: ...
@overload
def prepare(
    inputs: Any = None,
    tokenizer: Any = None,
    output: Address = None,
    *,
    config: Address = None,
    dataset: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset | dict[str, Dataset]: ...
def prepare(
    inputs: Any = None,
    tokenizer: Any = None,
    output: Address = None,
    *,
    config: Address = None,
    dataset: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset | dict[str, Dataset]:
    """Read, filter, tokenize and write a dataset. Resume an unfinished one, open a finished one.

    >>> import tokenmill
    >>> texts = ["the lowest of the low", "newer and wider"]
    >>> tokenizer = tokenmill.train_from_iterator(texts, 270, progress=False)
    >>> tokenmill.prepare(dataset=texts, tokenizer=tokenizer, output="out", verbose_level="ERROR")
    Dataset('out', documents=2, tokens=19, dtype=uint16)

    Args:
        inputs: Files, directories, globs or URLs; or data in memory, as `dataset`. A settings file
            (.yaml, .yml) alone is taken for `config`.
        tokenizer: A name, a path, or a tokenizer object of this or another library.
        output: The directory, or the URL of an object store, that becomes the dataset.
        config: A YAML file of settings; arguments given here take precedence.
        dataset: Data in memory instead of `inputs`: a Hugging Face `Dataset` or `DatasetDict`, an Arrow
            table, a list of texts or of records.
        keep: A function of a document's text that returns False to drop it.
        fresh: Remove the files of an earlier run in `output`, and start over.
        options: Any setting of docs/configuration.md, such as `context_length=2048`.

    Returns:
        The opened dataset, or a dictionary of datasets by name if the inputs have several splits.
        With `validation`, the training dataset. Its `split("validation")` is the other.

    Raises:
        ConfigError: A setting is unknown, of a wrong type, or contradicts another.
        InputError: A document cannot be read, and `on_error` is "fail".
        TokenizerError: The tokenizer cannot be loaded.
        ResumeError: `output` holds another job; the message names the settings that differ.
        InterruptedJobError: The job stopped before its end; the same call resumes it.
    """
    if config is None and isinstance(inputs, str | PathLike) and fspath(inputs).endswith(SETTINGS_FILES):
        inputs, config = None, inputs
    items = inputs if isinstance(inputs, list | tuple) else [inputs]
    if inputs is not None and not all(isinstance(item, str | PathLike) for item in items):
        if dataset is not None:
            raise ConfigError("inputs and dataset are both data in memory; give one of them")
        inputs, dataset = None, inputs
    resolved, tokenizer = resolve_call(config, inputs, tokenizer, output, options)
    with ExitStack() as stack:
        files = None
        if dataset is not None:
            from tokenmill.sources.memory import attach  # here, since it imports Arrow

            files = stack.enter_context(attach(dataset))
        runs = set_up(resolved, inputs=files, tokenizer=tokenizer, keep=keep, fresh=fresh)
        made = {name: run.execute() for name, run in runs.items()}
        write_split_list(resolved, list(made))
    return made[""] if "" in made else made if len(made) > 1 else next(iter(made.values()))


def resolve_call(
    config: Address, inputs: Any, tokenizer: Any, output: Address, options: Mapping[str, Any]
) -> tuple[Resolved, Any]:
    """Return the settings of a call in Python, and the tokenizer if it is not a name."""
    given = {"inputs": inputs, "output": output, **options}
    if isinstance(tokenizer, str | PathLike):
        given["tokenizer"], tokenizer = fspath(tokenizer), None
    return from_options(config, **given), tokenizer


logger = logging.getLogger("tokenmill.prepare")
CHAT_ENDS = {"<|im_end|>", "<|eot_id|>", "<|eot|>", "<end_of_turn>", "<|end|>", "<|END_OF_TURN_TOKEN|>"}


def set_up(
    resolved: Resolved,
    *,
    inputs: Sequence[InputFile] | None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
) -> dict[str, Run]:
    """Return a run for each split of the inputs, by name. The name is empty without splits.

    If a share of the documents is set aside for validation, there is a second run of that name.
    """
    if fresh and has_other_ranks():
        # A rank that starts late could mistake the new dataset for the one to remove.
        raise ConfigError("fresh=True is for one process, and this is one of several ranks")
    resolved = use_all_cores(resolved)
    execution = resolved.config.execution
    logs.configure(execution.verbose_level)
    for warning in resolved.warnings:
        logger.warning("%s", warning)
    for name in ("keep_in_memory", "writer_batch_size"):
        if resolved.is_set_by_user(f"execution.{name}"):
            logger.info("%s has no effect: documents are written as they are encoded", name)
    if inputs is None:
        with resolved.name_setting("source.inputs", InputNotFoundError):
            inputs = discover(resolved.config.source, resolved.config.output.path)
    elif execution.executor == "ray":
        raise ConfigError(
            "data in memory cannot be read by other processes: save it to files first, for example with "
            "save_to_disk, and name those, or use executor='local'"
        )
    runs: dict[str, Run] = {}
    for name, files in _group_inputs(resolved, inputs).items():
        run = runs[name] = _settle_run(_narrow_to_split(resolved, name), files, tokenizer, keep)
        tokenizer = run.job.encoder
        if fresh:
            run.clear()
    return runs


def use_all_cores(resolved: Resolved) -> Resolved:
    """Give the rank that prepares all cores of its host, since the other ranks wait."""
    execution, cores = resolved.config.execution, resolved.machine.cores
    shared = execution.unit_range is not None or execution.executor != "local"
    if shared or cores.together <= cores.usable or resolved.is_set_by_user("execution.threads"):
        return resolved
    threads = min(cores.together, execution.num_proc or cores.together)
    return replace(resolved, config=replace(resolved.config, execution=replace(execution, threads=threads)))


def _group_inputs(resolved: Resolved, inputs: Sequence[InputFile]) -> dict[str, list[InputFile]]:
    """Return the inputs of each dataset by its name, which is empty without splits."""
    names = list(dict.fromkeys(file.split for file in inputs))
    if len(names) > 1:
        return {name or "rest": [file for file in inputs if file.split == name] for name in names}
    part, whole = resolved.config.filter.validation_part, resolved.config.filter.validation is None
    parts = [VALIDATION] if part == VALIDATION else [""] if whole or part == TRAINING else ["", VALIDATION]
    return {name: list(inputs) for name in parts}


def _narrow_to_split(resolved: Resolved, name: str) -> Resolved:
    """Return the settings of one split, whose directory is below the output."""
    config = resolved.config
    if config.filter.validation is not None:
        if name not in ("", VALIDATION) or config.source.split is not None:
            raise ConfigError(
                f"the inputs already have splits ({name or config.source.split}): leave out validation, "
                "or give inputs without splits"
            )
        filters = replace(config.filter, validation_part=VALIDATION if name else TRAINING)
        config = replace(config, filter=filters)
    elif name:
        config = replace(config, source=replace(config.source, split=name))
    if name and config.output.path is not None:
        path = join_address(config.output.path, name)
        config = replace(config, output=replace(config.output, path=path))
    return replace(resolved, config=config)


def write_split_list(resolved: Resolved, names: Sequence[str]) -> None:
    """Write the file that lists the splits of a directory, if the format has one."""
    output = resolved.config.output
    name = find_format(output.format).split_list
    if name is not None and output.path is not None and len(names) > 1 and "" not in names:
        replace_file(output.path, name, readable_json({"splits": list(names)}))


def load_tokenizer(resolved: Resolved, tokenizer: Any = None) -> Any:
    """Load the tokenizer of the settings. `tokenizer` is a loaded one, or an object of another library."""
    if tokenizer is not None and hasattr(tokenizer, "fingerprint"):
        return tokenizer
    settings = resolved.config.tokenizer
    source = tokenizer if tokenizer is not None else settings.tokenizer_name
    if source is None:
        raise ConfigError("no tokenizer: give `tokenizer`, a directory, a file or a hub id")
    with resolved.name_setting("tokenizer.tokenizer_name", TokenizerNotFoundError):
        processes = resolved.config.execution.num_proc
        pattern, strategy = settings.pattern, settings.strategy
        return Tokenizer.load(source, pattern=pattern, strategy=strategy, num_proc=processes)


def _settle_run(
    resolved: Resolved, inputs: Sequence[InputFile], tokenizer: Any, keep: Callable[[str], bool] | None
) -> Run:
    """Return the run of some inputs, and log the resolved settings."""
    path = resolved.config.output.path
    if path is None:
        raise ConfigError("no output directory: give `output`")
    encoder = load_tokenizer(resolved, tokenizer)
    source, found = infer_fields(resolved.config.source, inputs, partial(_prefers_chat, resolved, encoder))
    config = replace(resolved.config, source=source)
    remote = Remote(path) if is_remote(path) else None
    root = Path(path) if remote is None else remote.work
    if remote is not None:
        remote.check()
        remote.pull(root)
    with explain_faults(root):
        planned = load_plan(root)
    if list_record_fields(source):
        config = _settle_chat(resolved, config, planned)
    if planned is not None and not resolved.is_set_by_user("output.unit_bytes"):
        # Keep the smaller units of a stream, which `prepare` can finish.
        unit_bytes = planned.values.get("output.unit_bytes", config.output.unit_bytes)
        config = replace(config, output=replace(config.output, unit_bytes=unit_bytes))
    job = make_job(config, encoder, root, remote, keep)
    packing = job.packing
    roles = (("BOS", packing.bos_id), ("EOS", packing.eos_id), ("padding", packing.pad_id))
    length = f", context_length {packing.context_length}" if packing.context_length else ""
    choices = [
        *found,
        f"Tokenizer: {job.tokenizer.name}, {job.tokenizer.vocab_size} ids -> {job.dtype}",
        f"Packing: {packing.mode}{length}",
        f"Tokens around each document: {', '.join(f'{role} {job.name_token(id_)}' for role, id_ in roles)}",
        f"Output: {config.output.format} in {job.location}",
    ]
    if job.chat is not None and not job.config.source.ids_field:
        choices += job.chat.describe()  # type: ignore[union-attr] # records of ids have no template
    if job.chat and packing.view is not None and packing.view.too_long is not None:
        choices.append(f"Conversations longer than {packing.context_length} tokens: {packing.view.too_long}")
    for line in choices:
        logger.info("%s", line)
    _warn_of_tokens(job)
    _log_engine(encoder.strategy, config.execution.num_proc or resolved.machine.slow_processes)
    return Run(job, inputs, choices)


def _prefers_chat(resolved: Resolved, encoder: Any) -> bool:
    """Return True if a prompt and its completion are read as a conversation, which needs a template."""
    if not isinstance(encoder, Tokenizer):
        return False
    from tokenmill.chat.template import list_own_templates

    return resolved.config.chat.chat_template is not None or bool(list_own_templates(encoder.recipe))


def _settle_chat(resolved: Resolved, config: JobConfig, planned: Plan | None) -> JobConfig:
    """Return settings with best-fit packing unless set, and the chat date of a resumed job."""
    given = [each.name for each in fields(config.chat) if resolved.is_set_by_user(f"chat.{each.name}")]
    if config.source.ids_field and given:
        raise ConfigError(f"{', '.join(given)}: records of ids are not rendered; leave this setting out")
    if config.packing.mode == "concat" and not resolved.is_set_by_user("packing.mode"):
        config = replace(config, packing=replace(config.packing, mode="bestfit"))
    date = None if planned is None else planned.values.get("chat.chat_date")
    if config.chat.chat_date is None and date:
        config = replace(config, chat=replace(config.chat, chat_date=date))
    return config


def _warn_of_tokens(job: Job) -> None:
    """Warn of missing or unusual tokens around documents."""
    packing, given = job.packing, job.config.packing
    eos, pad = job.name_token(packing.eos_id), packing.pad_id
    alone = packing.mode == "separate" or job.chat is not None
    if not alone and job.frame == (None, None) and given.eos is None:
        logger.warning(
            "Nothing separates documents: %s has no EOS token. Give `eos` to add one, or `eos=False` "
            "if that is intended",
            job.tokenizer.name,
        )
    if job.chat is None and given.eos is None and eos.partition(" ")[0] in CHAT_ENDS:
        logger.warning(
            "Documents end with %s, which ends a turn of a chat. For plain text, give the token that ends a "
            "document, e.g. `eos='<|endoftext|>'`",
            eos,
        )
    if pad is not None and given.pad_token is None and pad not in job.encoder.special_tokens.values():
        logger.warning(
            "Rows are padded with %s, an ordinary token, since %s has no padding token. Give "
            "`pad_token`, and train with the labels or the attention mask",
            job.name_token(pad),
            job.tokenizer.name,
        )


def _log_engine(strategy: Any, processes: int) -> None:
    reason = f" ({strategy.reason})" if strategy.reason else ""
    if strategy.name == "python":
        text = "Slow tokenizer detected - using Python multiprocessing with %d processes%s"
        logger.debug(text, processes, reason)
        logger.warning(
            "Using slow tokenizer - consider upgrading to a fast tokenizer for better performance: "
            "load it with use_fast=True, or train one on your data with: "
            "tokenmill train INPUT --vocab-size 32000 --output DIR"
        )
    elif strategy.name == "huggingface":
        logger.debug("Fast tokenizer detected - using internal Rust parallelism (num_proc=None)%s", reason)
        logger.info("✅ Using Fast Tokenizer (Rust-based)%s", reason)
    else:
        logger.info("Using native tokenizer (Tokenmill's Rust core)%s", reason)
