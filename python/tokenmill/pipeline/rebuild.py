"""`tokenmill dataset rebuild`: a dataset made again from its lock, or what has changed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import hash_file
from tokenmill.datasets.ledger.lock import load_lock
from tokenmill.datasets.ledger.plan import load_plan, name_units, save_plan
from tokenmill.errors import ConfigError, DatasetError, TokenmillError
from tokenmill.pipeline.executors.choose import choose_executor
from tokenmill.pipeline.lock import find_versions
from tokenmill.pipeline.prepare.run import Run
from tokenmill.pipeline.prepare.tokenizers import load_tokenizer
from tokenmill.pipeline.remove import remove
from tokenmill.pipeline.units.job import make_job
from tokenmill.pipeline.verify import restore_config
from tokenmill.report.dataset_tokenizer import check_same_tokenizer, load_identified
from tokenmill.sources.model import MEMORY
from tokenmill.sources.raw import find_remote_identity, local_identity

if TYPE_CHECKING:
    from tokenmill.datasets.ledger.lock import Lock, LockedInput
    from tokenmill.datasets.ledger.receipt import ShardEntry
    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.sources.model import InputFile

_SHOWN = 20


def rebuild(
    lock: str | Path, output: str | Path, *, inputs: str | Path | None = None, tokenizer: Any = None
) -> Dataset:
    """Make the dataset of a lock again; the same bytes, or an error that says what has changed.

    >>> import tokenmill
    >>> _ = Path("corpus.txt").write_text("one text")
    >>> made = tokenmill.prepare("corpus.txt", tokenizer, "out", verbose_level="ERROR", report=False)
    >>> path = tokenmill.lock("out")
    >>> tokenmill.rebuild(path, "again", tokenizer=tokenizer).content_hash == made.content_hash
    True

    Args:
        lock: A file that `tokenmill dataset lock` wrote.
        output: The directory of the new dataset.
        inputs: The directory that holds the inputs now, in the same layout as before.
        tokenizer: The tokenizer, if it has moved.

    Returns:
        The dataset, with the content hash of the lock.

    Raises:
        DatasetError: An input or the tokenizer has changed or is gone, or this version makes other bytes.
    """
    read, root = load_lock(Path(lock)), Path(output)
    files, problems = _find_inputs(read, None if inputs is None else Path(inputs))
    config = restore_config(read.plan)
    config = replace(config, output=replace(config.output, path=str(root), report=False))
    encoder = None
    try:
        encoder = _load_tokenizer(read, Path(lock).parent, config, tokenizer)
    except TokenmillError as error:
        problems.append(f"the tokenizer: {error}")
    if "filter.function" in read.plan.values:
        problems.append("a Python function chose the documents (keep=...), and is not part of a lock")
    if problems or encoder is None:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise DatasetError(
            f"{lock} cannot be rebuilt, because something has changed:\n  "
            + "\n  ".join(problems[:_SHOWN] + more)
        )
    whole = root if read.removal is None else root.with_name(f"{root.name}.whole")
    made = _make(read, files, config, encoder, whole)
    if read.removal is not None:
        gone = {each.number: each.reason for each in read.removal.documents}
        made = remove(whole, gone, root)
        shutil.rmtree(whole)
    _compare(read, made)
    return made


def _load_tokenizer(lock: Lock, beside: Path, config: Any, given: Any) -> Any:
    """What was given, or the copy beside the lock, or the tokenizer at its old place."""
    identity = lock.plan.target.tokenizer
    if given is None:
        return load_identified(beside, identity, config.tokenizer.pattern)
    encoder = load_tokenizer(config, given)
    check_same_tokenizer(identity, encoder, given=True)
    return encoder


def _make(lock: Lock, files: list[InputFile], config: Any, encoder: Any, root: Path) -> Dataset:
    name = lock.plan.target.tokenizer.name
    job = replace(
        make_job(config, encoder, root=root, name=name), values=lock.plan.values, dtype=lock.plan.target.dtype
    )
    # Before documents were removed the units had the names that their parts give them.
    units = lock.plan.units if lock.removal is None else name_units(lock.plan)
    plan = replace(lock.plan, inputs=tuple(files), units=units)
    there = load_plan(root)
    if there is not None and there != plan:
        raise ConfigError(f"{root} holds another dataset: name another output, or delete it")
    root.mkdir(parents=True, exist_ok=True)
    save_plan(root, plan)
    run = Run(job, files, choose_executor(config.execution))
    return run.execute().dataset


def _find_inputs(lock: Lock, place: Path | None) -> tuple[list[InputFile], list[str]]:
    """The inputs as they are now, and in words what has changed."""
    local = [file.url for file in lock.plan.inputs if file.local]
    common = os.path.commonpath([str(Path(url).parent) for url in local]) if local else ""
    found, problems = [], []
    for file, locked in zip(lock.plan.inputs, lock.inputs, strict=True):
        if file.format == MEMORY:
            problems.append(f"{file.url} was data in the memory of the process that prepared it")
        elif not file.local:
            problems += _check_remote(file)
            found.append(file)
        else:
            path = Path(file.url)
            if place is not None:
                path = place / path.relative_to(common)
            problem = _check_local(path, locked)
            if problem is not None:
                problems.append(problem)
            else:
                found.append(replace(file, url=str(path.absolute()), identity=local_identity(path.stat())))
    return found, problems


def _check_local(path: Path, locked: LockedInput) -> str | None:
    if not path.is_file():
        return f"{path} is gone; give --inputs DIR if it is elsewhere"
    size = path.stat().st_size
    if size != locked.size:
        return f"{path} has changed: {size:,} bytes, the lock has {locked.size:,}"
    digest = hash_file(path)
    if digest != locked.sha256:
        return f"{path} has changed: its SHA-256 is {digest}, the lock has {locked.sha256}"
    return None


def _check_remote(file: InputFile) -> list[str]:
    try:
        now = find_remote_identity(file.url)
    except (TokenmillError, OSError) as error:
        return [f"{file.url} cannot be read: {error}"]
    if now == file.identity:
        return []
    return [f"{file.url} has changed: its version is {now}, the lock has {file.identity}"]


def _compare(lock: Lock, made: Dataset) -> None:
    """Raise `DatasetError` that names the shards that came out differently, and the versions that differ."""
    if made.content_hash == lock.content_hash:
        return
    pairs = zip(lock.shards, made.manifest.shards, strict=False)
    differ = [words for there, here in pairs if (words := _describe_shard(there, here))]
    now = find_versions()
    versions = [
        f"{name} {now.get(name, 'none')} here, {lock.versions.get(name, 'none')} then"
        for name in sorted({*now, *lock.versions})
        if now.get(name) != lock.versions.get(name)
    ]
    raise DatasetError(
        f"{made.address} was made from the same inputs with the same tokenizer, and {len(differ)} of "
        f"{len(lock.shards)} shards came out differently, first {', '.join(differ[:3])}: a version encodes "
        f"or packs differently ({'; '.join(versions) or 'all versions are the same'})"
    )


def _describe_shard(there: ShardEntry, here: ShardEntry) -> str:
    """The name of a shard and the files of it that differ; nothing if none does."""
    hashes = [entry.sha256 for entry in there.files]
    roles = [entry.role for entry in here.files if entry.sha256 not in hashes]
    return f"{there.name} ({', '.join(roles)})" if roles or len(hashes) != len(here.files) else ""
