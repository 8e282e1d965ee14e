"""Golden ids: what a tokenizer gives for 2,000 fixed strings, to check after an upgrade of any library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenmill.base.durable import publish_bytes, readable_json
from tokenmill.errors import InputError, InputNotFoundError
from tokenmill.tokenizer.tokenizer import Tokenizer

STRINGS = 2000


def list_strings() -> list[str]:
    """Return the fixed strings: every part alone, then 2 to 17 parts chosen by a fixed recurrence.

    The parts are words of many scripts, numbers, spaces, marks and code.
    """
    parts = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
    found, state = list(dict.fromkeys(parts)), 1
    while len(found) < STRINGS:
        chosen = []
        for _ in range(2 + len(found) % 16):
            state = (6364136223846793005 * state + 1442695040888963407) % 2**64
            chosen.append(parts[(state >> 33) % len(parts)])
        found.append("".join(chosen))
    return found


def write_golden(tokenizer: Tokenizer, path: str | Path) -> int:
    """Write the ids of the fixed strings with the fingerprint; return how many strings there are."""
    strings = list_strings()
    lists = tokenizer.encode_batch(strings, special="text").to_lists()
    place = Path(tokenizer.source)
    body = {
        "version": 1,
        "source": str(place.resolve()) if place.exists() else tokenizer.source,
        "fingerprint": tokenizer.fingerprint,
        "strings": list(zip(strings, lists, strict=True)),
    }
    publish_bytes(Path(path), readable_json(body, indent=None))
    return len(strings)


def load_golden(path: str | Path) -> dict[str, Any]:
    """Load a golden file. Raise `InputError` if it is not one."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        found["strings"] = [(text, list(ids)) for text, ids in found["strings"]]
    except FileNotFoundError as error:
        raise InputNotFoundError(f"{path}: no such file; `tokenizer card --golden` writes one") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a file of golden ids ({error}); write it again") from error
    return found


def find_difference(tokenizer: Tokenizer, golden: dict[str, Any]) -> str | None:
    """Return the first string that has other ids now, with both, or None if all are the same."""
    strings = [text for text, _ in golden["strings"]]
    lists = tokenizer.encode_batch(strings, special="text").to_lists()
    for nth, ((text, before), now) in enumerate(zip(golden["strings"], lists, strict=True)):
        if before != now:
            return f"string {nth} of {len(strings):,}, {text!r}: {before} before, {now} now"
    return None
