"""A first look at files that another library runs, in a process of its own that is allowed to crash.

Hugging Face's library and SentencePiece trust their files: a crafted one makes them panic with a backtrace on
the user's terminal, abort the process, or take all memory. So a file that nobody vouched for is first loaded
and tried in a child process with limits. A file that passes is remembered; one that does not is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from tokenmill.base.hardware.cache import cache_root
from tokenmill.errors import TokenizerError
from tokenmill.tokenizer.engines.foreign import PROBE

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 60
# Python, NumPy and the library take address space of their own; a vocabulary takes several times its file.
_ADDRESSES = 3 << 30
_ADDRESSES_PER_BYTE = 20
_CHILD = "from tokenmill.tokenizer.engines.vetting import try_file; try_file()"
_NAMES = {"hf": "Hugging Face tokenizers", "sentencepiece": "SentencePiece"}
PROBES = [
    "", " ", "a", "  a  b ", "\t\r\n\n", PROBE, "e\u0301\u0344 ﬁ ㎏ İ ß", "\u0301", "\0\x7f\ufeff\u200d",
    "\U0010ffff\ue000", "▁▁a▁", "Ġ Ċ", "<s> [CLS] <unk> </s> <|endoftext|> <0x0A>", "don't 'LL 1234567 3.14",
    "ab " * 200, "9" * 300, "中文かな한국어" * 30,
    "".join(map(chr, range(0x20, 0x17F))),
]  # fmt: skip
_survived: set[str] = set()


def vet(kind: str, data: bytes, source: str) -> None:
    """Return if the library survives the file; otherwise raise a `TokenizerError` that says what happened."""
    key = hashlib.blake2b(kind.encode() + data, digest_size=16).hexdigest()
    note = cache_root() / "vetted" / key
    if key in _survived or note.is_file():
        return
    try:
        outcome = _try_in_child(kind, data, source)
    except _UntriedError:
        return
    if outcome:
        raise TokenizerError(f"{source}: {_NAMES[kind]} {outcome}")
    _survived.add(key)
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()


class _UntriedError(Exception):
    """The trial could not run, so nothing is known; the library itself will say what it lacks."""


def _try_in_child(kind: str, data: bytes, source: str) -> str:
    """What went wrong; empty if nothing did."""
    head = json.dumps({"kind": kind, "source": source}).encode()
    places = os.pathsep.join(place for place in sys.path if place)
    environment = os.environ | {
        "PYTHONPATH": places,
        "RAYON_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    try:
        child = subprocess.run(  # noqa: S603 - our own code; the file is its input
            [sys.executable, "-c", _CHILD],
            input=head + b"\n" + data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"does not finish within {SECONDS} seconds; {_BLAME}"
    except OSError as error:
        raise _UntriedError from error
    return _explain(child.returncode, child.stdout.decode(errors="replace").strip())


def _explain(code: int, said: str) -> str:
    """Why a trial ended, in words that blame the file only for what the file can have done."""
    if code == _UNTRIED:
        raise _UntriedError
    if code == _PANICKED:
        return f"panics on it ({said[:300]}); {_BLAME}"
    if -code in _FROM_OUTSIDE:
        return f"was stopped while trying it (signal {-code}); load it again, with more memory if it ran out"
    return f"crashed while trying it (exit code {code}); {_BLAME}" if code else ""


_BLAME = "the file is damaged or malicious"
# SIGHUP, SIGINT, SIGKILL and SIGTERM: what others send to a process, the system too when memory is short.
_FROM_OUTSIDE = {1, 2, 9, 15}
_PANICKED = 3
_UNTRIED = 4


def try_file() -> None:
    """The child: loads and tries the file on standard input."""
    head = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    _limit(len(data))
    try:
        _TRIALS[head["kind"]](data, head["source"])
    except TokenizerError as error:
        # An ordinary error is raised again in the parent, where it says more.
        if type(error.__cause__).__name__ == "PanicException":
            os.write(1, str(error.__cause__).encode())
            os._exit(_PANICKED)
    except ImportError:
        os._exit(_UNTRIED)
    os._exit(0)


def _limit(size: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        most = _ADDRESSES + _ADDRESSES_PER_BYTE * size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _try_hf(data: bytes, source: str) -> None:
    from tokenmill.tokenizer.engines.hf_api import open_hf

    hf = open_hf(data.decode(), source)
    for probe in PROBES:
        for as_text in (True, False):
            ids = hf.encode_lists([probe], as_text=as_text, template=not as_text)[0]
            hf.decode(ids, skip_special=as_text)


def _try_sentencepiece(data: bytes, source: str) -> None:
    from tokenmill.tokenizer.files.sentencepiece_library import LibraryModel

    model = LibraryModel(data, source)
    for probe in PROBES:
        model.decode(model.encode(probe))


_TRIALS: dict[str, Callable[[bytes, str], None]] = {"hf": _try_hf, "sentencepiece": _try_sentencepiece}
