"""The built site: no broken link, no request to another host, a page for every name, command and setting."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial

import pytest
from blocks import ROOT
from site_crawl import find_broken, find_foreign, read_site

import tokenmill
from tokenmill.cli import COMMANDS

pytest.importorskip("mkdocs", reason="make docs installs it and runs these tests")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


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


def test_no_link_is_broken(site):
    assert len(read_site(site)) > 100
    assert find_broken(site) == []


def test_nothing_is_fetched_from_another_host(site):
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


@pytest.fixture
def address(site):
    """The site on loopback."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=site)
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.browser
def test_a_browser_asks_no_other_host_and_finds_things(address):
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="dark")
        requests, errors = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(address + "tutorial/")
        page.keyboard.press("f")
        page.keyboard.type("Feistel permutation shuffle")
        page.wait_for_selector(".md-search-result__item a")
        page.goto(address + "ko/tutorial/")
        assert page.evaluate("document.body.dataset.mdColorScheme") == "slate", "dark where the system is"
        page.goto(address + "reference/names/Tokenizer/")
        assert page.locator("code", has_text=re.compile("encode_batch")).count()
        browser.close()
    assert [url for url in requests if not url.startswith((address, "data:", "blob:"))] == []
    assert errors == []
