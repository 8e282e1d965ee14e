"""Writes `report.json` and `report.html` into the directory of a finished run, and compares two runs."""

from __future__ import annotations

import json
import logging
import math
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.datasets.cache import open_cached
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.remote import Remote
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.data import CountedShards, collect_dataset, read_events
from tokenmill.report.dataset_page import render_dataset
from tokenmill.report.page import cards, code, draw_bars, format_number, page, paragraph, section, table
from tokenmill.report.vocabulary import script_of
from tokenmill.sources.stores import is_remote
from tokenmill.training.output import TRAINING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tokenmill.tokenizer.tokenizer import Tokenizer


logger = logging.getLogger("tokenmill.report")
REPORT_JSON, REPORT_HTML = "report.json", "report.html"


def write_report(directory: str | Path, tokenizer: Any = None) -> Path:
    """`write_report(DIR)` -> DIR/report.html; both files appear whole or not at all.

    `tokenizer` saves loading the dataset's own again if the caller has it. Raises `DatasetError` if the
    directory holds neither a dataset nor a trained tokenizer.
    """
    root = Path(directory)
    data = collect(root, tokenizer)
    if data["kind"] == "train":
        from tokenmill.report.report import render_training

        html = render_training(data)
    else:
        html = render_dataset(data)
    publish_bytes(root / REPORT_JSON, readable_json(data))
    publish_bytes(root / REPORT_HTML, html.encode("utf-8", "backslashreplace"))
    return root / REPORT_HTML


def publish_report(location: str | Path, tokenizer: Any = None) -> str:
    """Write the report where the dataset is, in a directory or an object store; returns its address."""
    if is_remote(location):
        from tokenmill.report.report import report_remote

        return report_remote(str(location), tokenizer)
    return str(write_report(location, tokenizer))


def report_if_possible(location: str | Path, tokenizer: Any = None) -> None:
    """Write the report of a finished job; a full disk or a foreign format is only worth a warning."""
    try:
        publish_report(location, tokenizer)
    except (OSError, TokenmillError) as error:
        logger.warning("no report was written: %s", error)


def collect(root: Path, tokenizer: Any = None) -> dict[str, Any]:
    """The report of whatever the directory holds: a dataset or a trained tokenizer."""
    if (root / TRAINING).exists() and not (root / PLAN).exists():
        from tokenmill.report.report import collect_training

        return collect_training(root)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such directory; give the output directory of a prepare or train run")
    return collect_dataset(root, tokenizer)


def write_comparison(first: str | Path, second: str | Path, output: str | Path) -> Path:
    """Two runs side by side, each figure with its change, as one page."""
    data = [collect(Path(path)) for path in (first, second)]
    rows = list(_compare(data[0], data[1]))
    body = [
        paragraph(f"A: {first}    B: {second}"),
        section("Figures", table(("figure", "A", "B", "B against A"), rows, folded=False)),
    ]
    output = Path(output)
    publish_bytes(output, page("Two runs compared", body).encode("utf-8", "backslashreplace"))
    return output


def compare(first: str | Path, second: str | Path) -> list[dict[str, Any]]:
    """The same comparison as data."""
    rows = _compare(collect(Path(first)), collect(Path(second)))
    return [dict(zip(("figure", "a", "b", "change"), row, strict=True)) for row in rows]


def _compare(a: dict[str, Any], b: dict[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """Numbers that both reports have at the same place, and words that differ; lists are left out."""
    flat_a, flat_b = _flatten(a), _flatten(b)
    for name, left in flat_a.items():
        if name not in flat_b:
            continue
        right = flat_b[name]
        if isinstance(left, int | float) and isinstance(right, int | float) and not isinstance(left, bool):
            yield (
                name,
                left,
                right,
                f"{100 * (right / left - 1):+.2f} %" if left else ("same" if right == left else "new"),
            )
        elif left != right:
            yield name, left, right, "differs"


def _flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found |= _flatten(item, f"{prefix}{key}.")
        elif not isinstance(item, list) and item is not None:
            found[f"{prefix}{key}"] = item
    return found


MOST_BYTES = 256 << 20


def report_remote(address: str, tokenizer: Any = None) -> str:
    """`report_remote("s3://bucket/out")` -> `"s3://bucket/out/report.html"`."""
    from tokenmill.report.report import REPORT_HTML, REPORT_JSON

    remote = Remote(address)
    remote.pull(remote.work)
    manifest, cache = open_cached(remote.address)
    total = sum(entry.bytes for shard in manifest.shards for entry in shard.files)
    # Every n-th, so that together they have at most about so many bytes; at least one.
    chosen = manifest.shards[:: max(1, math.ceil(total / MOST_BYTES))]
    for shard in chosen:
        for entry in shard.files:
            cache.path(entry)
    sizes = {entry.path: entry.bytes for shard in manifest.shards for entry in shard.files}
    counted = CountedShards(cache.root, chosen, remote.address.rpartition("/")[2], sizes)
    data = collect_dataset(remote.work, tokenizer, counted)
    remote.replace(REPORT_JSON, readable_json(data))
    remote.replace(REPORT_HTML, render_dataset(data).encode("utf-8", "backslashreplace"))
    return f"{remote.address}/{REPORT_HTML}"


LONGEST_SHOWN = 40
# A token may be as long as the longest piece of the texts.
CHARACTERS_SHOWN = 200


def collect_training(root: Path) -> dict[str, Any]:
    """`collect_training(DIR)` -> what `report.json` holds for a trained tokenizer."""
    from tokenmill.tokenizer.tokenizer import Tokenizer

    try:
        figures = json.loads((root / TRAINING).read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{root / TRAINING} cannot be read ({error}); train again") from error
    start = read_events(root).starts[-1:] or [{}]
    tokenizer = Tokenizer.load(root)
    return {
        "report_version": 1,
        "kind": "train",
        "name": root.name,
        "figures": figures,
        "vocabulary": _describe_vocabulary(tokenizer),
        "command": start[0].get("command"),
        "versions": start[0].get("versions", {}),
        "machine": start[0].get("machine", {}),
    }


def render_training(data: dict[str, Any]) -> str:
    """The HTML of one training's report."""
    figures, vocabulary = data["figures"], data["vocabulary"]
    seconds = {name: value for name, value in figures.get("seconds", {}).items() if name != "total"}
    longest = [(repr(token["token"]), token["id"]) for token in vocabulary["longest"]]
    lengths = [(f"{length} bytes", count) for length, count in vocabulary["lengths"].items()]
    parts = [
        cards(
            {
                "vocabulary": f"{figures['vocab_size']:,}",
                "documents": f"{figures['documents']:,}",
                "read": f"{format_number(figures['bytes'])}B",
                "pieces": f"{figures['pieces']:,}",
                "distinct pieces": f"{figures['unique']:,}",
                "seconds": f"{figures['seconds']['total']:,.2f}",
            }
        ),
        section(
            "Time by stage",
            draw_bars(list(seconds), list(seconds.values()), "seconds"),
            table(("stage", "seconds"), list(seconds.items())),
        ),
        section(
            "Tokens by length",
            draw_bars([name for name, _ in lengths], [count for _, count in lengths], "tokens"),
            table(("length", "tokens"), lengths),
        ),
        section(
            "Tokens by script",
            draw_bars(list(vocabulary["scripts"]), list(vocabulary["scripts"].values()), "tokens"),
            table(("script", "tokens"), list(vocabulary["scripts"].items())),
        ),
        section("Longest tokens", table(("token", "id"), longest)),
        section("Provenance", *_render_provenance(data)),
    ]
    return page(f"Training of {data['name']}", parts)


def _describe_vocabulary(tokenizer: Tokenizer) -> dict[str, Any]:
    tokens = [(token, tokenizer.token_bytes(token)) for token in range(tokenizer.vocab_size)]
    lengths = Counter(len(data) for _, data in tokens)
    longest = sorted(tokens, key=lambda item: (-len(item[1]), item[0]))[:LONGEST_SHOWN]
    return {
        "size": len(tokens),
        "lengths": {length: lengths[length] for length in sorted(lengths)},
        "scripts": dict(Counter(script_of(data) for _, data in tokens).most_common()),
        "longest": [{"id": token, "token": _spell(data)} for token, data in longest],
    }


def _spell(token: bytes) -> str:
    """A token's beginning as text; four bytes hold any one character, and one more tells that it goes on."""
    text = token[: 4 * CHARACTERS_SHOWN + 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}…"


def _render_provenance(data: dict[str, Any]) -> list[str]:
    rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in data["figures"].items()]
    rows += [(f"version of {name}", version) for name, version in data["versions"].items()]
    rows += [(name, str(value)) for name, value in data["machine"].items()]
    command = [code(shlex.join(data["command"]))] if data["command"] else []
    return [*command, table(("what", "value"), rows)]
