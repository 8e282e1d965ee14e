"""`tokenmill train`: texts to a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from tokenmill.cli.sizes import Size
from tokenmill.settings.fields import ExecutorName

if TYPE_CHECKING:
    from collections.abc import Callable

_EPILOG = """\b
Examples:
  tokenmill train 'corpus/*.txt' --vocab-size 32000 --output my-tokenizer
  tokenmill train data.jsonl.zst --vocab-size 50257 --pattern cl100k --special '<|endoftext|>' -o out
  tokenmill train data.parquet --vocab-size 64000 --save-counts counts.parquet -o out-64k
  tokenmill train --counts counts.parquet --vocab-size 128000 -o out-128k
  tokenmill train --counts ko.parquet:2.0 --counts en.parquet --vocab-size 64000 -o out-mixed"""

# Which flags decide the vocabulary, which say how to run, and which say how to read.
_DECIDES: tuple[str, ...] = ("vocab_size", "pattern", "special_tokens", "min_frequency")
_DECIDES += ("min_piece_frequency", "max_token_length", "tie_break", "held_out")
_RUNS: tuple[str, ...] = ("threads", "memory_budget", "counts", "output", "save_counts", "resume")
_RUNS += ("checkpoint_every", "spill_dir", "verbose", "executor", "ray_address")
_SOURCE = ("text_field", "template", "txt_mode", "document_separator", "on_error")


def _source_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--format", "input_format", default="auto", help="Format of the inputs; auto looks."),
        click.option("--text-field", help="Field or column that holds the text."),
        click.option("--template", help="Text made from fields, e.g. '{title}\\n{body}'."),
        click.option(
            "--txt-mode",
            type=click.Choice(["auto", "file", "line", "separator"]),
            help="What a document is in a text file.",
        ),
        click.option("--document-separator", help="String between documents of a text file."),
        click.option(
            "--on-error", type=click.Choice(["fail", "skip", "replace"]), help="What to do with a bad record."
        ),
    ):
        function = option(function)
    return function


@click.command(epilog=_EPILOG)
@click.argument("inputs", nargs=-1)
@click.option(
    "--vocab-size", type=int, required=True, help="Tokens in all, with 256 bytes and the special tokens."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the tokenizer.",
)
@click.option(
    "--pattern", default="gpt2", show_default=True, help="Family (gpt2, cl100k, o200k, llama3…) or a regex."
)
@click.option(
    "--special",
    "special_tokens",
    multiple=True,
    help="A special token; repeat for more. They get the lowest ids.",
)
@click.option(
    "--min-frequency",
    type=int,
    default=0,
    show_default=True,
    help="Stop when the best pair occurs less often.",
)
@click.option(
    "--min-piece-frequency",
    type=int,
    default=1,
    show_default=True,
    help="Leave rarer pieces out; this changes the result.",
)
@click.option("--max-token-length", type=int, help="No token may have more bytes.")
@click.option(
    "--tie-break",
    type=click.Choice(["huggingface", "lexicographic"]),
    default="huggingface",
    show_default=True,
    help="Between pairs of equal counts: lowest ids, or greatest bytes.",
)
@click.option(
    "--held-out",
    type=float,
    default=0.0,
    show_default=True,
    help="Fraction of documents kept out, to measure on.",
)
@click.option("--counts", multiple=True, help="A counts file, with a weight: a.parquet:2.0; repeat for more.")
@click.option(
    "--save-counts",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the counts for another vocabulary size.",
)
@click.option(
    "--save-as",
    multiple=True,
    type=click.Choice(["hf", "tiktoken", "vocab-merges", "minbpe", "all"]),
    default=("hf",),
    show_default=True,
    help="Formats to write; repeat for more.",
)
@click.option("--resume", is_flag=True, help="Go on where an interrupted training stopped.")
@click.option("--checkpoint-every", type=int, help="Merges between checkpoints; half a minute if left out.")
@click.option("--threads", type=int, help="Threads for counting; all of this process's cores if left out.")
@click.option(
    "--memory-budget", type=Size(), help="What counting may hold, e.g. 4GB; beyond it goes to disk."
)
@click.option(
    "--spill-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where that goes; the output if left out.",
)
@click.option(
    "--executor",
    type=click.Choice(get_args(ExecutorName)),
    default="local",
    show_default=True,
    help="Where counting runs.",
)
@click.option("--ray-address", help="The Ray cluster's address.  [default: auto]")
@_source_options
@click.option("--verbose", is_flag=True, help="Tell memory and CPU while merging.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object.")
def command(inputs: tuple[str, ...], **given: Any) -> None:
    """Train a byte-level BPE tokenizer on files, globs, directories or saved counts."""
    from tokenmill.base.console.logs import configure
    from tokenmill.engine.training.summary import lines
    from tokenmill.jobs.train import run

    configure("WARNING" if given["quiet"] else "INFO")
    trained = run(_request(inputs, given))
    if given["as_json"]:
        click.echo(json.dumps(trained.summary, indent=2, ensure_ascii=False))
        return
    for line in lines(trained.summary):
        click.echo(line)
    click.echo(f"saved           {given['output']}")


def _request(inputs: tuple[str, ...], given: dict[str, Any]) -> Any:
    from tokenmill.engine.training.options import TrainOptions
    from tokenmill.engine.training.outputs import SaveFormat
    from tokenmill.jobs.train import TrainRequest

    source = {name: given[name] for name in _SOURCE if given[name] is not None}
    return TrainRequest(
        list(inputs),
        TrainOptions(**{name: given[name] for name in _DECIDES}),
        **{name: given[name] for name in _RUNS},
        progress=not given["quiet"],
        save_as=get_args(SaveFormat) if "all" in given["save_as"] else given["save_as"],
        source={"format": given["input_format"], **source},
    )
