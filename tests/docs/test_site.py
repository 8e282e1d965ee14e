"""The built site: no broken link, no request to another host, a page for every name, command and setting."""

import json
import os
import subprocess
import sys

import pytest
from blocks import ROOT
from site_crawl import find_foreign, read_site

import tokenmill
from tokenmill.cli import COMMANDS

pytest.importorskip("mkdocs", reason="make docs installs it and runs these tests")


@pytest.fixture(scope="module")
def site():
    """What `make docs` has just built, or a build of our own."""
    if not os.environ.get("DOCS_SITE"):
        environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
        for command in (
            ["packaging/site_pages.py"],
            ["-m", "mkdocs", "build", "--quiet", "--strict", "-f", "build/mkdocs.yml"],
        ):
            subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True)
    return ROOT / "site"


def test_nothing_is_fetched_from_another_host(site):
    assert len(read_site(site)) > 100
    assert find_foreign(site) == []


def test_every_name_and_command_has_a_page(site):
    missing = [
        name
        for name in tokenmill.__all__
        if not (site / "reference" / "names" / name / "index.html").exists()
    ]
    for group, table in COMMANDS.items():
        for name in set(table) - set(COMMANDS):
            page = f"{group} {name}".strip().replace(" ", "-")
            missing += [page] if not (site / "reference" / "commands" / page / "index.html").exists() else []
    assert not missing
    tokenizer = (site / "reference" / "names" / "Tokenizer" / "index.html").read_text(encoding="utf-8")
    assert "encode_batch" in tokenizer, "methods are on the page of their class"
    settings = (site / "configuration" / "index.html").read_text(encoding="utf-8")
    assert "max_record_bytes" in settings


def test_every_language_has_its_pages(site):
    for language, word in (("ko", "토크나이저"), ("zh", "分词器")):
        for page in ("", "tutorial/", "continual/"):
            text = (site / language / page / "index.html").read_text(encoding="utf-8")
            assert f'lang="{language}"' in text
            assert word in text, f"{language}/{page} is not translated"


def test_search_knows_all_languages(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    words = " ".join(entry["text"] for entry in index["docs"])
    assert "memory-map" in words
    assert set(index["config"]["lang"]) >= {"en", "ko", "zh"}
