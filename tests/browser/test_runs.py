"""Runs in the browser: live progress to the end, documents, rows, and the report itself."""

import threading

import pytest

import tokenmill
from live_page import serious_faults, write_progress
from tokenmill.datasets.trace import History
from tokenmill.report.card import render_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    texts = [f"document {n}: the mill turns {n * 7} times 방앗간" for n in range(200)]
    (root / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    tokenmill.train_from_iterator(texts, 320, special_tokens=["<|endoftext|>"]).save(root / "tok")
    tokenmill.prepare(
        inputs=[str(root / "texts.txt")],
        txt_mode="line",
        tokenizer=str(root / "tok"),
        output=str(root / "done"),
        show_progress=False,
    )
    return root


def open_run(page, server, name):
    page.goto(server.url + "#runs")
    page.get_by_role("button", name=name, exact=True).click()


def test_browse_documents_and_rows(page, server):
    open_run(page, server, "done")
    page.wait_for_selector(".document")
    assert page.locator(".document").inner_text().startswith("document 0: the mill turns 0 times")
    page.get_by_label("Number").fill("12")
    page.get_by_role("button", name="Show").click()
    page.wait_for_function("() => document.querySelector('.document').innerText.startsWith('document 12:')")
    page.get_by_label("What to browse").select_option("rows")
    page.get_by_label("Number").fill("0")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector(".boundary")
    assert page.locator(".document .boundary").count() > 3
    assert serious_faults(page) == []


def test_a_number_beyond_the_end_is_said(page, server):
    page.expected_errors = True
    open_run(page, server, "done")
    page.wait_for_selector(".document")
    page.get_by_label("Number").fill("99999")
    page.get_by_role("button", name="Show").click()
    page.wait_for_function(
        "() => document.getElementById('run-view').innerText.includes('there is no document 99,999')"
    )
    assert "has 200" in page.locator("#run-view").inner_text()


def test_live_progress_is_followed_to_the_end(page, server, folder):
    job = folder / "live"
    write_progress(
        job, state="running", bytes=10, bytes_total=100, units_done=1, units_total=10, documents=5, tokens=50
    )
    open_run(page, server, "live")
    page.wait_for_function("() => document.getElementById('live')?.innerText.includes('1 of 10 units')")
    page.wait_for_selector(".charts svg")
    options = {
        "inputs": [str(folder / "texts.txt")],
        "txt_mode": "line",
        "tokenizer": str(folder / "tok"),
        "output": str(job),
        "show_progress": False,
    }
    worker = threading.Thread(target=lambda: tokenmill.prepare(**options))
    worker.start()
    page.wait_for_selector(".document", timeout=30_000)
    worker.join()
    assert page.locator("progress").evaluate("bar => bar.value") == 1
    assert "done" in page.locator("#live").inner_text()


def test_the_account_of_a_run(page, server):
    open_run(page, server, "done")
    page.wait_for_selector(".account tbody tr")
    read, written = page.locator(".account tbody tr").all_inner_texts()[:2]
    assert read.split("\t")[:2] == ["read", "200"]
    assert written.split("\t")[:2] == ["written", "200"]
    assert serious_faults(page) == []


def test_click_a_step_and_see_what_it_reads(page, server, folder):
    open_run(page, server, "done")
    page.get_by_label("Tokens in a row").fill("64")
    page.get_by_label("Rows in a batch").fill("1")
    page.get_by_label("Ranks").fill("2")
    page.get_by_label("Seed, if shuffled").fill("7")
    page.get_by_role("button", name="Trace the step").click()
    page.wait_for_selector("#traced details")
    feed = tokenmill.open(folder / "done").rows(64).batches(1, shuffle=True, seed=7, world_size=2)
    for step in (0, 1):
        page.get_by_role("group", name="Steps nearby").get_by_role(
            "button", name=str(step), exact=True
        ).click()
        page.wait_for_function(
            "n => document.querySelector('.steps [aria-current]')?.textContent === String(n)", arg=step
        )
        expected = [f"row {row.row} of the dataset" for row in History(feed).trace(step)]
        shown = page.locator("#traced summary").all_inner_texts()
        assert len(shown) == 2
        assert all(words in line for words, line in zip(expected, shown, strict=True))
    assert serious_faults(page) == []


@pytest.mark.parametrize("look", ["phone", "dark", "print"])
def test_the_report_reads_well(page, server, look):
    if look == "phone":
        page.set_viewport_size({"width": 375, "height": 700})
    page.emulate_media(
        color_scheme="dark" if look == "dark" else "light", media="print" if look == "print" else "screen"
    )
    open_run(page, server, "done")
    page.get_by_role("link", name="Open the report").click()
    page.wait_for_selector("h1")
    assert page.locator("section").count() >= 7
    assert page.locator("section svg").count() >= 5
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0, "the page scrolls sideways"
    assert serious_faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_the_card_and_the_report_of_a_training_read_well(page, tmp_path, width, scheme):
    texts = [f"the mill turns {n} 방앗간이 돈다" for n in range(90)]
    tokenmill.train_from_iterator(texts, 320, output=tmp_path / "a", ladder="280", progress=False)
    tokenmill.train_from_iterator(texts, 300, output=tmp_path / "b", pattern="o200k", progress=False)
    data = tokenmill.card([tmp_path / "a", tmp_path / "b"], {"one": iter(texts), "two": iter(texts[:9])})
    (tmp_path / "card.html").write_bytes(render_page(data))
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    for path in (tmp_path / "card.html", tmp_path / "a" / "report.html"):
        page.goto(path.as_uri())
        assert page.locator("section").count() >= 5
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow <= 0, "the page scrolls sideways"
        assert serious_faults(page) == []
