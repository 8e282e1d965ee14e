"""Lay out the sources of the docs site in build/: docs/, documents of the repository, the reference.

    python packaging/site_pages.py && mkdocs build -f build/mkdocs.yml

The README is the home page, in each language that it has; root documents are under `project/`; every public
name and every command has a page of its own under `reference/`.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import yaml

import tokenmill
from tokenmill.cli import COMMANDS, cli
from tokenmill.cli.options import IN_FULL
from tokenmill.report.page import STYLES

ROOT = Path(__file__).parents[1]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Source"]
# Root document -> its page.
DOCUMENTS = {
    "README.md": "index.md",
    "README.ko.md": "index.ko.md",
    "README.zh.md": "index.zh.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
}


def main(arguments: list[str]) -> None:
    """Write build/. With `versions`, the site has a version switch."""
    build = ROOT / "build"
    shutil.rmtree(build / "docs", ignore_errors=True)
    shutil.copytree(ROOT / "docs", build / "docs")
    shutil.copy(STYLES[0], build / "docs" / "stylesheets")
    for path in (build / "docs").rglob("*.md"):
        path.write_text(relink_page(path, build / "docs"), encoding="utf-8")
    pages = make_document_pages() | make_name_pages() | make_command_pages()
    pages["reference/index.md"] = make_index(pages)
    for name, text in pages.items():
        path = build / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    _list_in_nav(config["nav"], pages)
    if "versions" in arguments:
        config["extra"]["version"] = {"provider": "mike", "default": "latest"}
    (build / "mkdocs.yml").write_text(
        yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8"
    )


def make_document_pages() -> dict[str, str]:
    """Return the root documents, with the links that they have on the site."""
    found = {page: (ROOT / name) for name, page in DOCUMENTS.items()}
    texts = {page: path.read_text(encoding="utf-8") for page, path in found.items()}
    # The line of languages at the head of a README: the site has a switch.
    texts = {
        page: re.sub(r"^.*\(README\.\w\w\.md\).*\n", "", text, flags=re.MULTILINE)
        for page, text in texts.items()
    }
    return {page: _relink_document(text, page) for page, text in texts.items()}


def _relink_document(text: str, page: str) -> str:
    """Return a root document with links that work from its page; links to code go to the repository."""
    up = "../" * page.count("/")

    def target(match: re.Match[str]) -> str:
        link, fragment = match[1], match[2] or ""
        if link.startswith(("http", "#")):
            return match[0]
        if link in DOCUMENTS:
            link = DOCUMENTS[link]
        elif link.startswith("docs/"):
            link = re.sub(r"\.(ko|zh)\.md$", ".md", link.removeprefix("docs/"))
        else:
            return f"]({REPOSITORY}/blob/main/{link}{fragment})"
        return f"]({up}{link}{fragment})"

    return re.sub(r"\]\(([^)#\s]+)(#[^)]*)?\)", target, text)


def make_name_pages() -> dict[str, str]:
    """Return a page for each public name, made from its docstring."""
    pages = {}
    for name in tokenmill.__all__:
        home = getattr(tokenmill, name).__module__
        inside = "open_dataset" if name == "open" else name
        pages[f"reference/{_file_of(name)}.md"] = f"# `tokenmill.{name}`\n\n::: {home}.{inside}\n"
    return pages


def _file_of(name: str) -> str:
    return f"names/{name}"


def make_command_pages() -> dict[str, str]:
    """Return a page for each command: its help, as a terminal of 100 columns shows it."""
    pages = {}
    for group, table in COMMANDS.items():
        for name in table:
            if name in COMMANDS:
                continue
            words = f"{group} {name}".strip()
            pages[f"reference/commands/{words.replace(' ', '-')}.md"] = (
                f"# `tokenmill {words}`\n\n```text\n{_help_of(words.split())}\n```\n"
            )
    return pages


def _help_of(words: list[str]) -> str:
    """Return the output of `--help-all` or `--help`, for a group with the help of its commands."""
    context, command = click.Context(cli, info_name="tokenmill"), cli
    for word in words:
        command = command.get_command(context, word)  # type: ignore[attr-defined]
        context = click.Context(
            command, info_name=word, parent=context, max_content_width=100, terminal_width=100
        )
    context.meta[IN_FULL] = True
    parts = [command.get_help(context)]
    if isinstance(command, click.Group):
        parts += [_help_of([*words, name]) for name in command.list_commands(context)]
    return "\n\n".join(parts)


def make_index(pages: dict[str, str]) -> str:
    """Return the page that lists all names and commands, each with its first line."""
    lines = [
        "# Reference",
        "",
        "[Settings](../configuration.md), [inputs](../sources.md), [file format](../format.md).",
        "",
    ]
    lines += ["## Commands", "", "| command | what it does |", "|---|---|"]
    for group, table in COMMANDS.items():
        for name, (_, words) in table.items():
            path = f"commands/{f'{group} {name}'.strip().replace(' ', '-')}.md"
            if f"reference/{path}" in pages:
                lines.append(f"| [`tokenmill {f'{group} {name}'.strip()}`]({path}) | {words} |")
    for title, kind in (("Functions", _is_function), ("Classes", _is_class), ("Errors", _is_error)):
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        chosen = [name for name in tokenmill.__all__ if kind(getattr(tokenmill, name))]
        lines += [f"| [`tokenmill.{name}`]({_file_of(name)}.md) | {_first_line(name)} |" for name in chosen]
    return "\n".join(lines) + "\n"


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_function(value: Any) -> bool:
    return not isinstance(value, type) and callable(value) and hasattr(value, "__code__")


def _is_class(value: Any) -> bool:
    return not _is_error(value) and not _is_function(value)


def _first_line(name: str) -> str:
    words = (getattr(tokenmill, name).__doc__ or "").strip().splitlines()
    return words[0].replace("|", "\\|") if words else ""


def _list_in_nav(nav: list[Any], pages: dict[str, str]) -> None:
    """Add the pages of names and commands as sections at the end of the reference."""
    reference = next(part["Reference"] for part in nav if isinstance(part, dict) and "Reference" in part)
    made = {
        title: sorted((page for page in pages if page.startswith(f"reference/{folder}/")), key=str.lower)
        for title, folder in (("Commands", "commands"), ("Names", "names"))
    }
    for title, paths in made.items():
        if not any(isinstance(part, dict) and title in part for part in reference):
            reference.append({title: paths})


def relink_page(path: Path, docs: Path) -> str:
    """Return a page of docs/ with links to the pages of root documents, and to the repository for code."""
    depth = len(path.relative_to(docs).parts)

    def target(match: re.Match[str]) -> str:
        link = match[1]
        page = (
            f"{'../' * (depth - 1)}{DOCUMENTS[link]}"
            if link in DOCUMENTS
            else f"{REPOSITORY}/blob/main/{link}"
        )
        return f"]({page})"

    return re.sub(rf"\]\((?:\.\./){{{depth}}}([^)#\s]+)\)", target, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
