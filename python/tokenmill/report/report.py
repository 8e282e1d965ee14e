"""Write `report.json` and `report.html` into the directory of a finished run."""

from __future__ import annotations

import json
import logging
import math
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.datasets.ledger.manifest import PLAN
from tokenmill.datasets.remote import Remote, open_cached
from tokenmill.errors import DatasetError, TokenmillError
from tokenmill.report.data import CountedShards, collect_dataset, read_events
from tokenmill.report.dataset_page import render_dataset
from tokenmill.report.page import bars_section, cards, code, format_number, page, section, table
from tokenmill.report.vocabulary import script_of
from tokenmill.sources.stores import is_remote
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.training.output import TRAINING

logger = logging.getLogger("tokenmill.report")
REPORT_JSON, REPORT_HTML = "report.json", "report.html"
MOST_BYTES = 256 << 20  # counted in a dataset of an object store
LONGEST_SHOWN = 40
CHARACTERS_SHOWN = 200  # of a token, which may be as long as the longest piece


def write_report(directory: str | Path, tokenizer: Any = None) -> Path:
    """Write both files of a local run and return the path of the page.

    `tokenizer` is that of the dataset, if the caller has loaded it. Raise `DatasetError` if the directory
    holds neither a dataset nor a trained tokenizer.
    """
    root = Path(directory)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such directory; give the output directory of a prepare or train run")
    if (root / TRAINING).exists() and not (root / PLAN).exists():
        data = collect_training(root)
        html = render_training(data)
    else:
        data = collect_dataset(root, tokenizer)
        html = render_dataset(data)
    publish_bytes(root / REPORT_JSON, readable_json(data))
    publish_bytes(root / REPORT_HTML, html.encode("utf-8", "backslashreplace"))
    return root / REPORT_HTML


def publish_report(location: str | Path, tokenizer: Any = None) -> str:
    """Write the report of a directory or of a dataset in an object store; return its address."""
    if is_remote(location):
        return report_remote(str(location), tokenizer)
    return str(write_report(location, tokenizer))


def report_if_possible(location: str | Path, tokenizer: Any = None) -> None:
    """Write the report of a finished job, or log a warning if that fails."""
    try:
        publish_report(location, tokenizer)
    except (OSError, TokenmillError) as error:
        logger.warning("no report was written: %s", error)


def report_remote(address: str, tokenizer: Any = None) -> str:
    """Write the report of a dataset in an object store; return the address of its page."""
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


def collect_training(root: Path) -> dict[str, Any]:
    """Return the data of `report.json` for a trained tokenizer."""
    try:
        figures = json.loads((root / TRAINING).read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{root / TRAINING} cannot be read ({error}); train again") from error
    start = (read_events(root).starts or [{}])[-1]
    tokenizer = Tokenizer.load(root)
    tokens = [(token, tokenizer.token_bytes(token)) for token in range(tokenizer.vocab_size)]
    longest = sorted(tokens, key=lambda item: (-len(item[1]), item[0]))[:LONGEST_SHOWN]
    return {
        "report_version": 1,
        "kind": "train",
        "name": root.name,
        "figures": figures,
        "vocabulary": {
            "size": len(tokens),
            "lengths": dict(sorted(Counter(len(data) for _, data in tokens).items())),
            "scripts": dict(Counter(script_of(data) for _, data in tokens).most_common()),
            "longest": [{"id": token, "token": _spell(data)} for token, data in longest],
        },
        "command": start.get("command"),
        "versions": start.get("versions", {}),
        "machine": start.get("machine", {}),
    }


def _spell(token: bytes) -> str:
    """Return the beginning of a token as text; no character has more than four bytes."""
    text = token[: 4 * CHARACTERS_SHOWN + 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[:CHARACTERS_SHOWN]}…"


def render_training(data: dict[str, Any]) -> str:
    """Return the HTML of the report of a training."""
    figures, vocabulary = data["figures"], data["vocabulary"]
    seconds = {name: value for name, value in figures.get("seconds", {}).items() if name != "total"}
    lengths = {f"{length} bytes": count for length, count in vocabulary["lengths"].items()}
    longest = [(repr(token["token"]), token["id"]) for token in vocabulary["longest"]]
    provenance = [(name, json.dumps(value, ensure_ascii=False)) for name, value in figures.items()]
    provenance += [(f"version of {name}", version) for name, version in data["versions"].items()]
    provenance += [(name, str(value)) for name, value in data["machine"].items()]
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
        bars_section("Time by stage", ("stage", "seconds"), seconds),
        bars_section("Tokens by length", ("length", "tokens"), lengths),
        bars_section("Tokens by script", ("script", "tokens"), vocabulary["scripts"]),
        section("Longest tokens", table(("token", "id"), longest)),
        section(
            "Provenance",
            code(shlex.join(data["command"])) if data["command"] else "",
            table(("what", "value"), provenance),
        ),
    ]
    return page(f"Training of {data['name']}", parts)
