"""`tokenmill.prepare`: raw text in, a dataset that every rank can map at once out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from tokenmill.base.errors import ConfigError
from tokenmill.jobs.prepare.set_up import list_splits, set_up
from tokenmill.settings.resolve import from_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tokenmill.datasets.reader.dataset import Dataset
    from tokenmill.settings.resolve import Resolved
    from tokenmill.sources import InputFile


@overload
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: None = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset: ...
@overload
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: Any,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset | dict[str, Dataset]: ...
def prepare(
    config: str | Path | Resolved | None = None,
    *,
    dataset: Any = None,
    tokenizer: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Any,
) -> Dataset | dict[str, Dataset]:
    """Read, filter, tokenize, pack and write; resume what was begun; open what is finished.

    >>> prepare(inputs="corpus/*.jsonl", tokenizer="gpt2", output="out")  # doctest: +SKIP
    Dataset('out', documents=14,593, tokens=18,340,182, dtype=uint16)

    `config` is a YAML file or settings resolved before; `options` are the names of docs/configuration.md.
    `dataset` is data in memory instead of `inputs`: a Hugging Face `Dataset` or `DatasetDict`, an Arrow
    table, a list of texts or records. `tokenizer` is a name, a path or a tokenizer object; `keep` is a
    function of the text that says which documents stay. Inputs with several splits give a dictionary.
    """
    resolved, tokenizer = _resolved(config, tokenizer, options)
    with _inputs(dataset) as inputs:
        runs = set_up(resolved, inputs=inputs, tokenizer=tokenizer, keep=keep, fresh=fresh)
        made = {name: run.execute().dataset for name, run in runs.items()}
        list_splits(resolved, list(made))
    return made if len(made) > 1 else next(iter(made.values()))


def _inputs(dataset: Any) -> AbstractContextManager[Sequence[InputFile] | None]:
    if dataset is None:
        return nullcontext()
    from tokenmill.sources.memory import attached  # which brings Arrow along

    return attached(dataset)


def _resolved(config: Any, tokenizer: Any, options: dict[str, Any]) -> tuple[Resolved, Any]:
    if isinstance(tokenizer, str | Path):
        options["tokenizer"], tokenizer = str(tokenizer), None
    if config is None or isinstance(config, str | Path):
        return from_options(config, **options), tokenizer
    if options:
        raise ConfigError(f"settings are resolved already; {', '.join(options)} cannot be added")
    return config, tokenizer
