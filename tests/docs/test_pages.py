"""Every page's blocks say what they are and run, and its links lead somewhere."""

import re
from pathlib import Path

import pytest
from blocks import KINDS, ROOT, find_blocks, run_page, split_commands
from stage import set_stage

from object_store import bucket, s3_endpoint  # noqa: F401

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL = [*PAGES, *(path for path in sorted(ROOT.glob("*.md")) if path not in PAGES)]
# A translated page has the code of its original, which test_translations.py holds it to.
ORIGINALS = [page for page in PAGES if not re.search(r"\.(ko|zh)\.md$", page.name)]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in ORIGINALS if find_blocks(page)], ids=name_of)
def test_blocks_run(page, tmp_path, request):
    set_stage(tmp_path, text=page.read_text(encoding="utf-8"))
    other_words = {}
    if "s3://bucket" in page.read_text(encoding="utf-8"):
        store = request.getfixturevalue("bucket")
        upload(tmp_path / "corpus", f"{store}/raw")
        other_words["s3://bucket"] = store
    faults = run_page(page, tmp_path, other_words)
    assert not faults, "\n\n".join(faults)


def upload(folder, url):
    import obstore

    store = obstore.store.from_url(url)
    for path in folder.iterdir():
        obstore.put(store, path.name, path.read_bytes())


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_blocks_say_what_they_are(page):
    unnamed = [f"{page.name}:{block.line}" for block in find_blocks(page) if block.kind not in KINDS]
    assert not unnamed, f"{unnamed}: a block is one of {', '.join(KINDS)}"


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing, f"{page.name} links to {missing}"


def test_the_readme_asserts_something():
    assert any("assert" in block.text for block in find_blocks(ROOT / "README.md") if block.kind == "python")


def test_commands_are_split_where_a_shell_would():
    assert split_commands("a \\\n  b\n# no\n\nc 'x\ny'\n") == ["a \\\n  b", "c 'x\ny'"]


def test_a_fault_is_told_with_its_place(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```sh\ntrue\nfalse\n```\n\n```python\nraise ValueError("x")\n```\n\n```json\n{\n```\n')
    first, second, third = run_page(page, tmp_path)
    assert first.startswith("page.md:1: false")
    assert second.startswith("page.md:6: ")
    assert "ValueError: x" in second
    assert third.startswith("page.md:10: not JSON")


def test_pages_of_one_name_are_told_apart():
    assert len({name_of(page) for page in ALL}) == len(ALL)
    assert Path(ALL[0]).exists()
