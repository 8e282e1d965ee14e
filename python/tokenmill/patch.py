"""Run a script with our engine in transformers' tokenizers: `python -m tokenmill.patch script.py …`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tokenmill.errors import EXIT_USAGE, TokenmillError

USAGE = "usage: python -m tokenmill.patch SCRIPT.py [arguments of the script] | -m MODULE [arguments]"


def main(arguments: list[str]) -> int:
    """Patch transformers, run the script or module under its own name, and return its exit code."""
    from tokenmill.tokenizer.interop.hf import patch_transformers

    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or (not module and not Path(rest[0]).is_file()):
        problem = f"{rest[0]}: no such file" if rest else "no script given"
        print(f"{problem}; {USAGE}", file=sys.stderr)
        return EXIT_USAGE
    try:
        patch_transformers()
    except TokenmillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    sys.argv = rest
    if module:
        sys.path[0] = ""
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(rest[0]).resolve().parent)
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
