"""Count the files of the package that one small `prepare` and one small `train` visit by function calls.

    python benchmarks/walk.py [--list]

Each command runs twice, and only the second run is traced, so that imports are left out.
"""

import sys
import tempfile
import threading
from pathlib import Path

from click.testing import CliRunner

import tokenmill
from tokenmill.cli import cli

ROOT = Path(tokenmill.__file__).parent
TEXT = '{"text": "the mill turns the text of a day into tokens"}\n'


def run(command, folder):
    """Run a command with its own output folder."""
    done = CliRunner().invoke(cli, [*command, "--output", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def trace(command, folder):
    """Return the files and functions that a command visits, in all of its threads."""
    seen = set()

    def look(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        run(command, folder)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted({str(Path(name).relative_to(ROOT)) for name, _ in seen}), seen


with tempfile.TemporaryDirectory() as folder:
    source = Path(folder) / "a.jsonl"
    source.write_text(TEXT * 2000)
    commands = {
        "train": ["train", str(source), "--vocab-size", "300"],
        "prepare": ["prepare", str(source), "--tokenizer", f"{folder}/train", "--no-report"],
    }
    for name, command in commands.items():
        run(command, Path(folder) / name)
        files, functions = trace(command, Path(folder) / f"{name}-again")
        print(f"{name}: {len(files)} files, {len(functions)} functions")
        if "--list" in sys.argv:
            print("\n".join(f"  {file}" for file in files))
