"""Every page's blocks say what they are and run, and its links lead somewhere."""

import re

import pytest
from blocks import KINDS, ROOT, find_blocks, run_page
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
