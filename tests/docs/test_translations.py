"""Korean and Chinese pages have the headings, code and tables of the English ones."""

import re

import pytest
from blocks import FENCE, ROOT, find_blocks

ORIGINALS = ("README.md", "docs/tutorial.md", "docs/continual.md", "docs/trainers.md")
LANGUAGES = {"ko": re.compile("[가-힣]"), "zh": re.compile("[一-鿿]")}
PAIRS = [(name, language) for name in ORIGINALS for language in LANGUAGES]


def translation_of(name, language):
    return (ROOT / name).with_suffix(f".{language}.md")


def prose(page):
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "language"), PAIRS)
def test_the_code_is_the_same(name, language):
    original, translated = find_blocks(ROOT / name), find_blocks(translation_of(name, language))
    assert [(block.kind, block.text) for block in translated] == [
        (block.kind, block.text) for block in original
    ]


@pytest.mark.parametrize(("name", "language"), PAIRS)
def test_the_headings_are_the_same(name, language):
    levels = [
        re.findall(r"^(#+ (?:\d+\.)?)", prose(page), re.MULTILINE)
        for page in (ROOT / name, translation_of(name, language))
    ]
    assert levels[0] == levels[1]


@pytest.mark.parametrize(("name", "language"), PAIRS)
def test_it_is_written_in_its_language(name, language):
    """A paragraph, a heading or a row that was left in English has not one letter of the script."""
    parts = [part.strip() for part in prose(translation_of(name, language)).split("\n\n")]
    skipped = re.compile(r"(# Tokenmill|## [A-Z][\w`(), -]+|## [a-z][\w() -]+|Apache-2\.0[.。]|!\[.*|)$")
    missing = [part for part in parts if not LANGUAGES[language].search(part) and not skipped.match(part)]
    assert not missing


@pytest.mark.parametrize(("name", "language"), PAIRS)
def test_the_links_are_the_same(name, language):
    links = [
        {re.sub(r"\.(ko|zh)\.md", ".md", link) for link in re.findall(r"\]\(([^)#]+)", prose(page))}
        for page in (ROOT / name, translation_of(name, language))
    ]
    assert links[0] == links[1]


def test_every_translation_is_kept():
    """A translated page that this file does not know would fall behind unnoticed."""
    there = {str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.*.md"), *(ROOT / "docs").rglob("*.*.md")]}
    assert there == {str(translation_of(*pair).relative_to(ROOT)) for pair in PAIRS}
