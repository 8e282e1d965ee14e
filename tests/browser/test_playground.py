"""The playground as a person uses it, in a real browser."""

import json

import pytest

import tokenmill
from live_page import Server, serious_faults

pytestmark = pytest.mark.browser
TEXT = "the mill turns 방앗간 磨坊 🙂"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokenizers")
    texts = ["the mill turns the grain", "방앗간이 돈다", "磨坊在转"] * 20
    tokenmill.train(iter(texts), 300).save(root / "small")
    tokenmill.train(iter(texts), 340, pattern="cl100k", special_tokens=["<|endoftext|>"]).save(root / "large")
    return root


@pytest.fixture(scope="module")
def server(folder):
    server = Server(folder)
    yield server
    server.stop()


def open_page(page, server, fragment=""):
    page.goto(server.url + fragment)
    page.wait_for_selector(".picker input")


def choose(page, index, name):
    picker = page.locator(".picker input").nth(index)
    picker.fill(name)
    picker.press("Enter")


def type_text(page, text):
    page.fill("#text", text)


def panel_tokens(page, index):
    panel = page.locator(".panel").nth(index)
    return [
        label.rsplit(", id ", 1)
        for label in panel.locator(".token").evaluate_all("nodes => nodes.map(n => n.ariaLabel)")
    ]


def test_type_text_and_see_the_right_tokens(page, server, folder):
    open_page(page, server)
    choose(page, 0, "small")
    type_text(page, TEXT)
    tokenizer = tokenmill.Tokenizer.load(folder / "small")
    expected = tokenizer.encode(TEXT)
    page.wait_for_function("n => document.querySelectorAll('.token').length === n", arg=len(expected))
    assert [int(token) for _, token in panel_tokens(page, 0)] == expected
    assert f"tokens {len(expected)}" in page.locator(".figures").inner_text()
    assert "round trip: exact" in page.locator(".figures").inner_text()
    assert page.locator(".token.bytes").count() > 0, "the emoji is cut into bytes by so small a vocabulary"


def test_two_tokenizers_show_where_they_differ(page, server):
    open_page(page, server)
    choose(page, 0, "small")
    page.click("#add")
    choose(page, 1, "large")
    type_text(page, "the mill turns the grain 방앗간이 돈다")
    page.wait_for_function(
        "() => document.querySelectorAll('.panel .token').length > 2 && document.querySelectorAll('.panel').length === 2"
    )
    first, second = panel_tokens(page, 0), panel_tokens(page, 1)
    assert [text for text, _ in first] != [text for text, _ in second]
    assert page.locator(".token.differs").count() > 0


def test_a_token_tells_its_merges(page, server, folder):
    open_page(page, server)
    choose(page, 0, "small")
    type_text(page, " the")
    page.wait_for_selector(".token")
    page.locator(".token").last.click()
    page.wait_for_selector("#detail ol li")
    steps = page.locator("#detail ol li").all_inner_texts()
    assert len(steps[0].split(" + ")) == len(steps), "each step joins two parts"
    assert "rank" in page.locator("#detail").inner_text()


def test_special_tokens_and_white_space_are_visible(page, server):
    open_page(page, server)
    choose(page, 0, "large")
    type_text(page, "a b\n<|endoftext|>")
    page.check("#parse-special")
    page.wait_for_selector(".token.special")
    assert "·" in page.locator(".tokens").inner_text()
    assert "⏎" in page.locator(".tokens").inner_text()


def test_the_link_restores_everything(page, server):
    open_page(page, server)
    choose(page, 0, "small")
    page.click("#add")
    choose(page, 1, "large")
    type_text(page, TEXT)
    page.wait_for_function(
        "() => document.querySelectorAll('.panel').length === 2 && location.hash.includes('t=')"
    )
    page.check("#layer-pieces")
    page.wait_for_selector(".piece-end")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 2")
    assert page.input_value("#text") == TEXT
    assert page.locator(".picker input").nth(1).input_value() == "large"
    assert page.is_checked("#layer-pieces")


def test_copy_as_python_runs(page, server, folder):
    open_page(page, server)
    choose(page, 0, "small")
    type_text(page, TEXT)
    page.wait_for_selector(".token")
    page.get_by_role("button", name="Copy ids").click()
    ids = page.evaluate("navigator.clipboard.readText()")
    assert [int(token) for token in ids.split()] == tokenmill.Tokenizer.load(folder / "small").encode(TEXT)
    page.get_by_role("button", name="Copy JSON").click()
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["ids"] == [
        int(token) for token in ids.split()
    ]


def test_a_megabyte_stays_responsive(page, server):
    open_page(page, server)
    choose(page, 0, "small")
    page.evaluate(
        "() => { const t = document.getElementById('text'); t.value = 'the mill turns the grain 방앗간 '.repeat(30000); t.dispatchEvent(new Event('input')); }"
    )
    page.wait_for_function(
        "() => document.querySelector('.figures')?.innerText.includes('1,') && document.querySelectorAll('.token').length > 300",
        timeout=30_000,
    )
    assert page.locator(".token").count() < 5000, "only what is near the view is drawn"
    page.evaluate("() => document.querySelector('.tokens').scrollTo(0, 1e7)")
    last = page.locator(".tokens > span").last
    last.locator(".token").last.wait_for(timeout=10_000)
    assert last.locator(".token").count() > 0


def test_a_broken_tokenizer_is_a_sentence_not_a_crash(page, server, folder):
    page.expected_errors = True
    (folder / "zz-broken").mkdir(exist_ok=True)
    (folder / "zz-broken" / "tokenizer.json").write_text("{")
    open_page(page, server)
    choose(page, 0, "zz-broken")
    type_text(page, "x")
    page.wait_for_function("() => document.getElementById('message').textContent.includes('broken')")
    choose(page, 0, "small")
    page.wait_for_selector(".token")
    assert page.locator("#message").inner_text() == ""


def test_keyboard_alone_reaches_tokens(page, server):
    open_page(page, server)
    choose(page, 0, "small")
    type_text(page, "the mill")
    page.wait_for_selector(".token")
    page.focus(".tokens")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.index") == "1"
    page.wait_for_selector("#detail dl")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_accessibility_fault(page, server, scheme):
    page.emulate_media(color_scheme=scheme)
    open_page(page, server)
    choose(page, 0, "small")
    type_text(page, TEXT)
    page.wait_for_selector(".token")
    page.locator(".token").first.click()
    page.wait_for_selector("#detail dl")
    assert serious_faults(page) == []
