"""The code blocks of a page, run one after the other as its reader would.

Each block says what it is: `python` and `sh` run, `yaml` is read as settings, `json` is parsed, `text` is only shown.
Needs nothing but the package, so that a plain install can run it too:

    python tests/docs/blocks.py README.md docs/tutorial.md
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from stage import SMALLER, set_stage

ROOT = Path(__file__).parents[2]
KINDS = ("python", "sh", "yaml", "json", "text")
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
# Commands that a page may show and a test of pages does not run, and who runs them instead.
ELSEWHERE = {
    "make": "the Makefile's own targets; CI runs them",
    "pip": "packaging/try_wheel.py installs the wheel",
    "git": "needs the network",
    "docker": "needs a daemon",
    "cd": "a checkout",
    ".": "a virtual environment",
    "ray": "tests/integration has a cluster of its own",
    "torchrun": "tests/integration/test_pretrain_example.py",
    "tokenmill dataset trace": "the steps of a long run; tests of trace have runs of their own",
    "sbatch": "needs Slurm",
    "kubectl": "needs Kubernetes",
}


@dataclass(frozen=True)
class Block:
    """`kind` is what stands after the fence's three marks; `line` is where it begins in its page."""

    page: Path
    line: int
    kind: str
    text: str


def find_blocks(page):
    """All fenced blocks of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page, text[: match.start()].count("\n") + 1, match[2].strip(), _outdent(match[3], len(match[1]))
        )
        for match in FENCE.finditer(text)
    ]


def _outdent(text, width):
    return "".join(line[width:] for line in text.splitlines(keepends=True))


def run_page(page, folder, other_words=None, *, plain=False):
    """Run a page's blocks in `folder`; the faults found, in words. `other_words` stand for words of the page.

    A `plain` install leaves out the blocks that install an extra, and nothing else.
    """
    words = SMALLER | (other_words or {})
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TOKENMILL_CACHE": str(folder / ".cache"),
        "NO_COLOR": "1",
    }
    blocks = [block for block in find_blocks(page) if not (plain and "pip install 'tokenmill[" in block.text)]
    blocks = [replace(block, text=_in_other_words(block.text, words)) for block in blocks]
    return [fault for block in blocks if (fault := _fault_of(block, folder, environment))]


def _in_other_words(text, words):
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def _fault_of(block, folder, environment):
    where = f"{block.page.name}:{block.line}"
    if block.kind == "json":
        return _json_fault(block, where)
    if block.kind == "python":
        done = _run([sys.executable, "-c", block.text], folder, environment)
        return f"{where}: {done.stderr[-2000:]}" if done.returncode else None
    if block.kind == "yaml":
        (folder / "page.yaml").write_text(block.text, encoding="utf-8")
        if "tokenizer:" not in block.text and "training:" not in block.text:
            return None  # settings of another program
        done = _run([sys.executable, "-m", "tokenmill", "config", "show", "page.yaml"], folder, environment)
        return f"{where}: {done.stderr[-2000:]}" if done.returncode else None
    return _shell_fault(block, where, folder, environment) if block.kind == "sh" else None


def _json_fault(block, where):
    try:
        json.loads(block.text)
    except ValueError as error:
        return f"{where}: not JSON: {error}"
    return None


def _shell_fault(block, where, folder, environment):
    for command in split_commands(block.text):
        if f"{command} ".startswith(tuple(f"{words} " for words in ELSEWHERE)) or "--executor ray" in command:
            continue
        if command.startswith("tokenmill serve"):
            fault = _serve_fault(command, folder, environment)
        else:
            done = _run(["bash", "-c", command], folder, environment)
            fault = done.stderr[-2000:] or f"exit code {done.returncode}" if done.returncode else None
        if fault:
            return f"{where}: {command}\n{fault}"
    return None


def split_commands(text):
    """One string per command; a backslash at the end of a line, or a quote left open, joins the next."""
    commands, part = [], ""
    for line in text.splitlines():
        part += line + "\n"
        if line.endswith("\\") or part.count("'") % 2 or part.count('"') % 2:
            continue
        if part.strip() and not part.lstrip().startswith("#"):
            commands.append(part.strip())
        part = ""
    return commands


def _serve_fault(command, folder, environment):
    """A server that says its address is fine, and is stopped."""
    with subprocess.Popen(
        [*command.split("#")[0].split(), "--port", "0"], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        said = server.stdout.readline()
        server.terminate()
        return None if "http://" in said else f"{said}{server.stderr.read()[-2000:]}"


def _run(command, folder, environment):
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def main(pages):
    """Run the pages that are named, each on a stage of its own; the exit code says whether all of them ran."""
    faults = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            set_stage(Path(folder), model=False)
            found = run_page(ROOT / page, Path(folder), plain=True)
        faults += found
        print(f"{page}: {len(find_blocks(ROOT / page))} blocks, {len(found)} with a fault")
    print("\n".join(faults))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
