"""`tokenmill.prepare`: turn raw text into a dataset that every rank can map."""

from __future__ import annotations

from contextlib import nullcontext
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Unpack, overload

from tokenmill.errors import ConfigError
from tokenmill.pipeline.setup import set_up, write_split_list
from tokenmill.settings.resolve import SETTINGS_FILES, Resolved, from_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tokenmill.datasets.dataset import Dataset
    from tokenmill.settings.options import PrepareOptions
    from tokenmill.sources import InputFile

    Names = str | PathLike[str] | Sequence[str | PathLike[str]]


@overload
def prepare(
    inputs: Names | None = None,
    tokenizer: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    config: str | PathLike[str] | Resolved | None = None,
    dataset: None = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset: ...
@overload
def prepare(
    inputs: Any = None,
    tokenizer: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    config: str | PathLike[str] | Resolved | None = None,
    dataset: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset | dict[str, Dataset]: ...
def prepare(
    inputs: Any = None,
    tokenizer: Any = None,
    output: str | PathLike[str] | None = None,
    *,
    config: str | PathLike[str] | Resolved | None = None,
    dataset: Any = None,
    keep: Callable[[str], bool] | None = None,
    fresh: bool = False,
    **options: Unpack[PrepareOptions],
) -> Dataset | dict[str, Dataset]:
    """Read, filter, tokenize, pack and write a dataset; resume an unfinished one, open a finished one.

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
        fresh: Remove what an earlier run left in `output`, and start over.
        options: Any setting of docs/configuration.md, such as `context_length=2048`.

    Returns:
        The finished dataset, opened; a dictionary of them, by name, where the inputs have several splits.
        With `validation` it is the one to train on, whose `split("validation")` is the other.

    Raises:
        ConfigError: A setting is unknown, of a wrong type, or contradicts another.
        InputError: A document cannot be read, and `on_error` is "fail".
        TokenizerError: The tokenizer cannot be loaded.
        ResumeError: `output` holds another job; the message names the settings that differ.
        InterruptedJobError: The job stopped before its end; the same call goes on.
    """
    if config is None and isinstance(inputs, str | PathLike) and fspath(inputs).endswith(SETTINGS_FILES):
        inputs, config = None, inputs
    if inputs is not None and not _are_names(inputs):
        if dataset is not None:
            raise ConfigError("inputs and dataset are both data in memory; give one of them")
        inputs, dataset = None, inputs
    given: dict[str, Any] = {"inputs": inputs, "output": output, **options}
    if isinstance(tokenizer, str | PathLike):
        given["tokenizer"], tokenizer = fspath(tokenizer), None
    resolved = _resolve(config, given)
    with _attach(dataset) as files:
        runs = set_up(resolved, inputs=files, tokenizer=tokenizer, keep=keep, fresh=fresh)
        made = {name: run.execute().dataset for name, run in runs.items()}
        write_split_list(resolved, list(made))
    return made[""] if "" in made else made if len(made) > 1 else next(iter(made.values()))


def _are_names(inputs: Any) -> bool:
    """Return True for one path or a list of paths; anything else is data."""
    items = inputs if isinstance(inputs, list | tuple) else [inputs]
    return all(isinstance(item, str | PathLike) for item in items)


def _attach(dataset: Any) -> AbstractContextManager[Sequence[InputFile] | None]:
    if dataset is None:
        return nullcontext()
    from tokenmill.sources.memory import attach  # here, since it imports Arrow

    return attach(dataset)


def _resolve(config: str | PathLike[str] | Resolved | None, given: dict[str, Any]) -> Resolved:
    if not isinstance(config, Resolved):
        return from_options(config, **given)
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ConfigError(f"the settings are already resolved; {', '.join(named)} cannot be added")
    return config
