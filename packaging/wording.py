"""Count wording that docs, messages and comments should not have. Fail above a ceiling; ceilings only fall.

    python packaging/wording.py [--list]

Two counts: function docstrings that do not begin with an imperative verb, and uses of the phrases below.
`--list` prints each place. A verb that is missing from `VERBS` is added there.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
# The part of the repository -> the most uses that it may have.
CEILINGS = {
    "docstrings without a verb": 0,
    "pages": 0,
    "messages and help": 0,
    "Python comments and docstrings": 0,
    "Rust": 0,
    "tests and benchmarks": 0,
}
# Words for which the standard term is shorter or clearer, and riddles built on "what", "none" and "nobody".
PHRASES = re.compile(
    r"(?<!there )\b((?-i:is none|are none|was none|were none)|nobody|somebody|who(so)?ever|a sentence"
    r"|sentences|is no (text|file|dataset|tokenizer|id|token|traceback|damage|success)|mend(s|ed|ing)?|taught"
    r"|(is|are|was|be) told|tells? apart|lends?|lent|hears?|heard|wish(es|ed)?|unhurt|without a word"
    r"|in vain|foretold|stretch(es)?|familiar doors|says? so|beside|goes on|go on)\b",
    re.IGNORECASE,
)
VERBS = frozenset(
    """
    Accept Add Allow Answer Append Apply Ask Assign Attach Bind Bring Build Cache Call Cancel Check
    Choose Claim Clear Close Collect Combine Compare Compile Compute Concatenate Connect Continue
    Control Convert Copy Count Create Cut Decide Decode Delete Describe Deserialize Detect Divide Do
    Download Draw Drop Encode End Ensure Escape Estimate Exit Expand Explain Export Extend Fail Fetch
    Fill Filter Find Finish Flatten Flush Follow Format Forward Freeze Gather Generate Get Give Graft
    Group Guess Handle Hash Hold Ignore Infer Initialize Insert Install Iterate Join Keep Label Lay Lead
    Leave Let Limit Link List Load Locate Lock Log Look Make Map Mark Match Measure Merge Move Name
    Normalize Number Open Order Overwrite Pack Pad Parse Partition Patch Pickle Plan Poll Prefix Prepare
    Print Process Publish Push Put Quote Raise Rank Read Rebuild Receive Record Reduce Refuse Register
    Reject Release Remove Rename Render Renew Renumber Repeat Replace Report Request Require Reserve
    Reset Resolve Restore Resume Retry Return Reuse Rewrite Round Run Sample Save Scale Scan Search
    Select Send Separate Serve Set Show Shuffle Shut Sign Skip Sleep Sort Split Start Stop Store Stream
    Strip Substitute Sum Summarize Take Test Trace Train Transfer Translate Trim Truncate Try Turn Undo
    Unpack Unpickle Update Upload Use Validate Verify Visit Wait Walk Warm Warn Widen Wrap Write Yield
    """.split()  # noqa: SIM905
)
PAGES = ("*.md", "docs/*.md", ".github/*", "mkdocs.yml", "pyproject.toml")


def list_files(*patterns: str) -> list[Path]:
    """Return the tracked files that match git patterns, without translations."""
    command = ["git", "ls-files", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    paths = [ROOT / name for name in done.stdout.splitlines()]
    return [path for path in paths if path.is_file() and not re.search(r"\.(ko|zh)\.md$", path.name)]


def find_phrases(text: str, place: str, first: int = 1) -> Iterator[str]:
    """Yield each phrase of a text with its place."""
    for found in PHRASES.finditer(text):
        yield f"{place}:{first + text[: found.start()].count(chr(10))}: {found[0]}"


def check_docstrings(tree: ast.Module, place: str) -> Iterator[str]:
    """Yield each function docstring that does not begin with a verb; as in D401, properties are exempt."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (words := ast.get_docstring(node)):
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            first = words.split()[0].rstrip(".,:;")
            if first not in VERBS and not is_property and not words.startswith("True if "):
                yield f"{place}:{node.body[0].lineno}: {words.splitlines()[0]}"


def check_python(path: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the faulty docstrings of a module, the phrases in its messages, and those in its comments."""
    text, place = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
    tree = ast.parse(text)
    docstrings = {
        (node.body[0].value.lineno, node.body[0].value.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
        and isinstance(node.body[0], ast.Expr)
    }
    messages: list[str] = []
    comments: list[str] = []
    for part in tokenize.generate_tokens(io.StringIO(text).readline):
        if part.type == tokenize.COMMENT or (part.type == tokenize.STRING and part.start in docstrings):
            comments += find_phrases(part.string, place, part.start[0])
        elif part.type == tokenize.STRING or part.type == getattr(tokenize, "FSTRING_MIDDLE", None):
            messages += find_phrases(part.string, place, part.start[0])
    return list(check_docstrings(tree, place)), messages, comments


def count() -> dict[str, list[str]]:
    """Return the places of every count."""
    found: dict[str, list[str]] = {name: [] for name in CEILINGS}
    for path in list_files(*PAGES):
        if not path.is_relative_to(ROOT / "tests"):
            found["pages"] += find_phrases(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for path in list_files("python/tokenmill/*.py", "packaging/*.py"):
        if path == Path(__file__):
            continue
        for name, places in zip(
            ("docstrings without a verb", "messages and help", "Python comments and docstrings"),
            check_python(path),
            strict=True,
        ):
            found[name] += places
    for name, patterns in (
        ("Rust", ["crates/*.rs"]),
        ("tests and benchmarks", ["tests/*.py", "benchmarks/*.py"]),
    ):
        for path in list_files(*patterns):
            found[name] += find_phrases(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    return found


def main(arguments: list[str]) -> int:
    """Print the counts and return 1 if a ceiling is exceeded."""
    found = count()
    for name, places in found.items():
        over = len(places) > CEILINGS[name]
        if over or arguments:
            print("\n".join(places))
        print(f"{name:32}{len(places):5} of {CEILINGS[name]:5}{'  too many' if over else ''}")
    return int(any(len(places) > CEILINGS[name] for name, places in found.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
