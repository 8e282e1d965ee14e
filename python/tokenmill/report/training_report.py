"""The report of a training: stages, counts and the vocabulary that came out."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from tokenmill.errors import DatasetError
from tokenmill.report.events import read_events
from tokenmill.report.page import cards, code, page, section, table
from tokenmill.report.scripts import script_of
from tokenmill.report.svg import draw_bars, format_number
from tokenmill.training.output import TRAINING

if TYPE_CHECKING:
    from pathlib import Path

    from tokenmill.tokenizer.tokenizer import Tokenizer

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
