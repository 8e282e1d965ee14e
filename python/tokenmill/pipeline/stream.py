"""`tokenmill.stream`: a dataset whose shards are made from the text when they are first read.

A shard is a function of its unit and the settings, so any process can make it at any time and remove it after
use. The output contains the plan and the receipts. The shards are in a cache directory of bounded size.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from tokenmill.base.durable import cache_root, digest, publish_bytes
from tokenmill.base.records import encode_record, open_record
from tokenmill.base.words import parse_size
from tokenmill.datasets.dataset import Dataset
from tokenmill.datasets.ledger.plan import Plan
from tokenmill.datasets.ledger.receipt import (
    SHARDS,
    FileEntry,
    Receipt,
    ShardEntry,
    load_receipt,
    parse_receipt,
    receipt_name,
)
from tokenmill.datasets.mapped import MappedShards, number_sparsely
from tokenmill.datasets.remote import add_hashes, rename_files
from tokenmill.datasets.rows import Rows
from tokenmill.errors import ConfigError, DatasetError, UnknownLengthError
from tokenmill.pipeline.commit import make_manifest, sweep_dataset
from tokenmill.pipeline.executors import Control
from tokenmill.pipeline.job import Job
from tokenmill.pipeline.output import explain_faults
from tokenmill.pipeline.prepare import resolve_call, set_up
from tokenmill.pipeline.unit import make_task, run_unit
from tokenmill.settings.options import PrepareOptions
from tokenmill.sources.read import read_first_documents

# Units of a stream: small enough that the first window of shards is made in about a second.
UNIT_BYTES = 16 << 20


def stream(
    inputs: Any = None,
    tokenizer: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    cache: str | int = "8GB",
    cache_dir: str | PathLike[str] | None = None,
    config: str | PathLike[str] | None = None,
    keep: Callable[[str], bool] | None = None,
    **options: Unpack[PrepareOptions],
) -> Stream:
    """Open raw text as a dataset: each shard is made when a rank first reads it.

    Rows, batches, states and traces equal those of the dataset that `prepare` makes from the same inputs
    and `output`, in the order `shuffle="local"`.

    >>> import tokenmill
    >>> with open("corpus.txt", "w") as file:
    ...     count = file.write("one text of the corpus")
    >>> stream = tokenmill.stream("corpus.txt", tokenizer, "streamed", verbose_level="ERROR")
    >>> next(iter(stream.rows(context_length=4).batches(2, shuffle="local")))["input_ids"].shape
    (2, 4)

    Args:
        inputs: Files, directories, globs or URLs.
        tokenizer: A name, a path, or a tokenizer object of this or another library.
        output: The directory, or the URL of an object store, for the plan and the receipts.
        cache: The size of the cache of shards, such as `"8GB"`.
        cache_dir: The directory of the cache, on a local disk or in memory; by default below
            `TOKENMILL_CACHE`. Ranks of one host share it.
        config: A YAML file of settings; arguments given here take precedence.
        keep: A function of a document's text that returns False to drop it.
        options: Any setting of docs/configuration.md. `unit_bytes` is 16 MiB by default.

    Returns:
        A dataset. It has no length until `tokenmill prepare` has made every shard.

    Raises:
        ConfigError: A setting is unknown, contradicts another, or needs all documents first.
        ResumeError: `output` holds another job; the message names the settings that differ.
    """
    resolved, tokenizer = resolve_call(config, inputs, tokenizer, output, options)
    threads = resolved.config.execution.threads or 1
    if not resolved.is_set_by_user("output.unit_bytes"):
        settings = replace(resolved.config.output, unit_bytes=UNIT_BYTES)
        resolved = replace(resolved, config=replace(resolved.config, output=settings))
    if resolved.config.filter.deduplicate:
        raise ConfigError("deduplicate compares all documents first: use prepare, or leave it out")
    runs = set_up(resolved, tokenizer=tokenizer, keep=keep)
    if len(runs) > 1:
        raise ConfigError(
            f"a stream is one dataset, and these inputs are {', '.join(name or 'train' for name in runs)}: "
            "choose one with split, or with validation_part"
        )
    run = next(iter(runs.values()))
    if run.job.config.output.format != "tokenmill":
        raise ConfigError("a stream is in the format tokenmill: leave out format, or use prepare")
    try:
        limit = parse_size(cache) if isinstance(cache, str) else cache
    except ValueError:
        raise ConfigError(f"cache is {cache!r}; expected a size such as '8GB'") from None
    root = Path(cache_dir) if cache_dir is not None else cache_root() / "streams"
    with explain_faults(run.job.root):
        run.compare_engines(read_first_documents(run.inputs, run.job.config.source).texts)
        plan = run.publish_plan()
    root = root / digest([unit.id for unit in plan.units])[:16]
    for place in (root, run.job.root):
        sweep_dataset(place)  # a killed run may have left files that the limit does not count
    return Stream(StreamedShards(run.job, plan, root, limit, threads))


class Stream(Dataset):
    """A dataset that is made while it is read, returned by `tokenmill.stream`."""

    shards: StreamedShards

    def __init__(self, shards: StreamedShards) -> None:
        self.shards = shards
        self.job, self.plan, self.manifest = shards.job, shards.plan, shards.manifest
        self.path = self.job.root

    def __repr__(self) -> str:
        return f"Stream({self.address!r}, units={len(self.plan.units):,}, dtype={self.dtype})"

    @property
    def address(self) -> str:
        """The output, as the user named it."""
        return self.job.location

    @cached_property
    def units_hash(self) -> str:
        """A hash over the units of the plan."""
        return digest([unit.id for unit in self.plan.units])

    def __len__(self) -> int:
        raise UnknownLengthError(
            f"{self.address} is a stream: its documents are not counted. `tokenmill prepare` with the same "
            "inputs and output makes every shard"
        )

    def rows(self, context_length: int | None = None, overlap: int | None = None, **options: Any) -> Rows:
        """Return rows that never cross shards. See `Dataset.rows`."""
        return super().rows(context_length, overlap, **{**options, "per_shard": True})


class StreamedShards(MappedShards):
    """Shards that are made on demand, ahead of use, in a directory of bounded size."""

    endless = True

    def __init__(self, job: Job, plan: Plan, root: Path, limit: int, threads: int) -> None:
        self.job, self.plan, self.limit, self.threads = job, plan, limit, threads
        self.manifest = make_manifest(plan, ())
        super().__init__(root, self.manifest)
        self.entries = _Entries(self)  # type: ignore[assignment]
        self.has_loss_mask = job.chat is not None
        self.token_starts = self.document_starts = number_sparsely(len(plan.units))
        self.num_tokens = self.token_starts[-1]
        self._receipts: dict[int, Receipt] = {}
        self._numbers = {unit.name: unit.ordinal for unit in plan.units}
        # The shards that each lane reads now and next, which stay in the cache.
        self._needed: dict[int, list[int]] = {}
        self._begin_process()

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamedShards, (self.job, self.plan, self.root, self.limit, self.threads)

    def _begin_process(self) -> None:
        """Reset the lock, the futures and the thread pool, which do not survive a fork."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._pending: dict[int, Future[Receipt]] = {}
        self._given: dict[int, int] = {}  # bytes of the cache reserved for shards that are being made
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="tokenmill-stream")

    def expect(self, lane: int, shards: Sequence[int]) -> None:
        """Start making the shards that a lane reads next."""
        self._needed[lane] = list(shards)
        self.most_mapped = max(64, sum(map(len, self._needed.values())))
        for shard in shards:
            self._request(shard)

    def path(self, entry: FileEntry) -> Path:
        """Return the path of a file. Make its shard if it is missing."""
        path = self.root / entry.path
        shard = self._numbers[Path(entry.path).name.partition(".")[0]]
        if entry.find_size(self.root) != entry.bytes:
            self._request(shard).result()
        with suppress(OSError):
            os.utime(path)  # the time of last use
        return path

    def receipt(self, shard: int) -> Receipt:
        """Return the receipt of a shard. Make the shard if no process has made it before."""
        found = self._receipts.get(shard)
        if found is None:
            name = receipt_name(self.plan.units[shard].name)
            try:
                found = parse_receipt(self._read(name), name)
            except (FileNotFoundError, DatasetError):
                found = self._request(shard).result()
            self._receipts[shard] = found = rename_files(found, found.shard.name)
        return found

    def count_rows(self, name: str, count: Callable[[], int]) -> int:
        """Return the number of rows of a view of a shard, counted once by any rank of this or another run."""
        try:
            return int(open_record(self._read(name), name, "rows_version", 1)["rows"])
        except (FileNotFoundError, DatasetError):
            rows = count()
            self._save(name, {"rows_version": 1, "rows": rows})
            return rows

    def _read(self, name: str) -> bytes:
        """Return a record of the cache or of the output."""
        for place in (self.root, self.job.root):
            with suppress(FileNotFoundError):
                return (place / name).read_bytes()
        data = None if self.job.remote is None else self.job.remote.read(name)
        if data is None:
            raise FileNotFoundError(name)
        return data

    def _save(self, name: str, record: dict[str, Any]) -> None:
        """Save a record in the output, for ranks of other hosts and for a run that resumes."""
        if self.job.remote is not None:
            self.job.remote.create(name, encode_record(record))
        elif not (self.job.root / name).exists():
            publish_bytes(self.job.root / name, encode_record(record))

    def _request(self, shard: int) -> Future[Receipt]:
        """Return the receipt of a shard as a future. The files exist when it is done."""
        if self._process != os.getpid():
            self._begin_process()
        unit = self.plan.units[shard]
        with self._lock:
            future = self._pending.get(shard)
            gone = future is not None and future.done() and not load_receipt(self.root, unit.name, unit.id)
            if future is None or gone:
                future = self._pending[shard] = self._pool.submit(self._make, shard)
            return future

    def _make(self, shard: int) -> Receipt:
        """Make a shard, unless another process of this host has made it, and publish its receipt."""
        from filelock import FileLock  # here, since importing it takes 50 ms

        unit = self.plan.units[shard]
        with explain_faults(self.root):
            (self.root / SHARDS).mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / f"{unit.name}.lock"):
                receipt = load_receipt(self.root, unit.name, unit.id)
                if receipt is None:
                    with self._lock:
                        self._make_room(unit.bytes)
                        self._given[shard] = unit.bytes
                    try:
                        job = replace(self.job, root=self.root, remote=None)
                        receipt = run_unit(job, make_task(unit, self.plan.inputs), Control())
                    finally:
                        del self._given[shard]
                shown = receipt if self.job.remote is None else add_hashes(receipt)
                self._save(receipt_name(unit.name), shown.to_json())
            with suppress(OSError):
                (self.root / f"{unit.name}.lock").unlink()
        return receipt

    def _make_room(self, size: int) -> None:
        """Remove least recently used shards until another fits. Raise `ConfigError` if it cannot."""
        needed = {self.plan.units[shard].name for shards in self._needed.values() for shard in shards}
        held: Counter[str] = Counter()
        used: dict[str, int] = {}
        for file in os.scandir(self.root / SHARDS):
            with suppress(FileNotFoundError):
                status, name = file.stat(), file.name.partition(".")[0]
                held[name] += status.st_size
                used[name] = max(used.get(name, 0), status.st_mtime_ns)
        # Shards being written, in files that begin with a dot, are counted by their reserved bytes.
        del held[""]
        total = held.total() + sum(self._given.values())
        for name in sorted(held, key=lambda name: used[name]):
            if total + size <= self.limit:
                return
            if name in self._numbers and name not in needed:
                self._remove(name)
                total -= held[name]
        if total + size > self.limit:
            raise ConfigError(
                f"the cache of {self.limit:,} bytes in {self.root} is full of shards that are read now or "
                f"next: {total:,} bytes are in use and {size:,} more are needed. Give a larger cache, or a "
                "smaller window or unit_bytes"
            )

    def _remove(self, name: str) -> None:
        """Remove a shard from the cache. Release its mapping, so that its disk space is freed."""
        shard = self._numbers[name]
        tables: list[dict[int, Any]] = [*self._maps.values(), self._buffers, self._receipts, self._pending]
        for table in tables:
            table.pop(shard, None)
        for path in (self.root / receipt_name(name), *(self.root / SHARDS).glob(f"{name}.*")):
            path.unlink(missing_ok=True)


class _Entries:
    """The shards of a stream by number."""

    def __init__(self, shards: StreamedShards) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return len(self._shards.plan.units)

    def __getitem__(self, shard: int) -> ShardEntry:
        return self._shards.receipt(shard).shard
