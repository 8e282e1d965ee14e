"""The schema as a commented file; export lines for a shell."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tokenmill.base.machine import GB, Machine
from tokenmill.settings.schema import SECTIONS
from tokenmill.settings.section import describe_type, list_settings

HEAD = """\
# Settings of a tokenmill job. Each commented-out line shows its default; null means automatic.
# Run it with:  tokenmill prepare --config {name}   or:  tokenmill train --config {name}
# See each value and who set it with:  tokenmill config show {name}
"""
EXAMPLES = {
    "source.inputs": '["data/*.jsonl"]',
    "tokenizer.tokenizer_name": "path/to/tokenizer",
    "output.path": "tokens",
}


def make_template(name: str = "tokenmill.yaml") -> str:
    """Return a settings file with every key, its help and its default; valid as it stands."""
    lines = [HEAD.format(name=name)]
    for section, model in SECTIONS.items():
        lines += [f"# {model.__doc__}", f"{section}:"]
        for key, setting in list_settings(model).items():
            example = EXAMPLES.get(f"{section}.{key}")
            lines.append(f"  # {setting.help} ({describe_type(setting.annotation)})")
            lines.append(f"  {key}: {example}" if example else f"  # {key}: {show_value(setting.default)}")
        lines.append("")
    return "\n".join(lines)


def show_value(value: Any) -> str:
    """Return a value as a settings file has it: `"2GiB"` for 2147483648, `'["hf"]'` for `("hf",)`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"{value >> 30}GiB" if value % (1 << 30) == 0 else f"{value >> 20}MiB"
    return value if isinstance(value, str) else json.dumps(value)


class Export(NamedTuple):
    """One environment variable, its value and the reason."""

    name: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"export {self.name}=${{{self.name}:-{self.value}}}  # {self.reason}"


def list_exports(machine: Machine) -> list[Export]:
    """Return the variables with which other tools of the same shell use what this machine has.

    A variable that is already set keeps its value. None of them may pin a thread to a core, since every rank
    of a host would choose the same one.
    """
    memory, threads, why = machine.memory, str(machine.cores.usable), machine.cores.reason
    free = f"{memory.available / GB:.1f} GB {memory.reason}"
    large, small = memory.available > 60 * GB, memory.available / machine.cores.ranks < 4 * GB
    batch, writer = (500, 5_000) if small else (20_000, 100_000) if large else (10_000, 50_000)
    return [
        Export("TOKENIZERS_PARALLELISM", "true", "let Rust tokenizers use their threads"),
        Export("RAYON_NUM_THREADS", threads, f"Rust threads: {why}"),
        Export("RAYON_RS_NUM_THREADS", threads, "the same under the name that some scripts read"),
        Export("OMP_NUM_THREADS", threads, f"NumPy and PyTorch threads: {why}"),
        Export("DATASET_NUM_PROC", threads, f"worker processes of Python tokenizers: {why}"),
        Export("DATASET_BATCH_SIZE", str(batch), f"documents at once: {free}"),
        Export("DATASET_WRITER_BATCH_SIZE", str(writer), f"documents per write: {free}"),
    ]
