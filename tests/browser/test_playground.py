"""The playground as a person uses it, in a real browser."""

import json
import re
import shutil

import pytest

import tokenmill
from live_page import serious_faults
from tokenmill.vocab.scripts import script_of

pytestmark = pytest.mark.browser
TEXT = "the mill turns 방앗간 磨坊 🙂"
TEXTS = ["the mill turns the grain", "방앗간이 돈다", "磨坊在转"] * 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokenizers")
    tokenmill.train_from_iterator(TEXTS, 300, output=root / "small", progress=False)
    tokenmill.train_from_iterator(TEXTS, 340, pattern="cl100k", special_tokens=["<|endoftext|>"]).save(
        root / "large"
    )
    return root


def open_page(page, server, *names):
    """The page with these tokenizers chosen, no others, and no text."""
    chosen = "&".join(f"k={name}" for name in names or ("small",))
    page.goto(f"{server.url}#playground?{chosen}&f=w&t=")
    page.wait_for_selector(".picker select")


def choose(page, index, name):
    page.locator(".picker select").nth(index).select_option(name)


def type_text(page, text):
    page.fill("#text", text)


def panel_tokens(page, index):
    panel = page.locator(".panel").nth(index)
    return [
        label.rsplit(", id ", 1)
        for label in panel.locator(".token").evaluate_all("nodes => nodes.map(n => n.ariaLabel)")
    ]


def test_the_first_screen_shows_tokens_without_a_click(page, server, folder):
    page.goto(server.url)
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 2")
    assert page.locator(".panel h3").all_inner_texts() == ["large", "small"]
    text = page.input_value("#text")
    assert all(word in text for word in ("The mill", "방앗간", "磨坊", "for ("))
    tokenizer = tokenmill.Tokenizer.load(folder / "small")
    assert [int(token) for _, token in panel_tokens(page, 1)] == tokenizer.encode(text)
    assert serious_faults(page) == []


def test_tabs_compare_scripts_and_lengths(page, server, folder):
    open_page(page, server, "small", "large")
    type_text(page, "the mill 방앗간이 돈다")
    page.get_by_role("tab", name="Compare by script").click()
    page.wait_for_selector("#figures table")
    head = page.locator("#figures thead th").all_inner_texts()
    assert head[:4] == ["tokenizer", "tokens", "vocabulary", "in all"]
    assert {"Latin", "Hangul"} <= set(head)
    tokenizer = tokenmill.Tokenizer.load(folder / "small")
    korean = [tokenizer.token_bytes(token) for token in tokenizer.encode("the mill 방앗간이 돈다")]
    korean = [token for token in korean if script_of(token) == "Hangul"]
    shown = page.locator("#figures tbody tr").first.locator("td").nth(head.index("Hangul") - 1).inner_text()
    assert shown == f"{sum(map(len, korean)) / len(korean):.2f}"
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "() => document.querySelector('#figures caption').textContent.includes('so many bytes')"
    )
    shares = page.locator("#figures tbody tr").first.locator("td").all_inner_texts()
    assert abs(sum(int(share.strip("< %")) for share in shares if share) - 100) <= len(shares)
    assert page.locator(".token.h0, .token.h1").count() > 0, "tokens are coloured by their length"
    assert "v=lengths" in page.url
    assert serious_faults(page) == []


def test_a_typed_conversation_shows_what_is_learned(page, server, folder):
    open_page(page, server, "large")
    page.get_by_role("tab", name="Conversation").click()
    page.wait_for_selector(".panel .learned")
    assert "user: What does the mill do?" in page.input_value("#text")
    type_text(page, "user: low\nassistant: lower\nuser: 방앗간\nassistant: 돈다\n둘째 줄")
    page.wait_for_function("() => document.querySelector('.panel .learned')?.textContent.startsWith('lower')")
    learned = page.locator(".panel .learned").all_inner_texts()
    assert learned == ["lower<|endoftext|>", "돈다\n둘째 줄<|endoftext|>"]
    tokenizer = tokenmill.Tokenizer.load(folder / "large")
    counted = sum(len(tokenizer.encode(text, special="parse")) for text in learned)
    assert f"learned {counted}" in page.locator(".panel .figures").inner_text()
    assert serious_faults(page) == []
    link = page.url
    page.expected_errors = True  # the browser notes the refusal
    type_text(page, "no one speaks")
    page.wait_for_function(
        "() => document.getElementById('message').textContent.includes('begin each message')"
    )
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".panel .learned")
    assert page.locator(".panel .learned").all_inner_texts() == learned
    page.get_by_role("tab", name="Side by side").click()
    page.wait_for_function("() => !document.querySelector('.panel .learned')")
    assert page.input_value("#text") == ""  # the text of the other tabs is its own


def test_a_dropped_file_is_shown(page, server, tmp_path):
    open_page(page, server)
    page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(['떨어진 파일 dropped'], 'note.txt', { type: 'text/plain' }));
          document.getElementById('playground').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    page.wait_for_function("() => document.getElementById('message').textContent.includes('note.txt')")
    assert page.input_value("#text") == "떨어진 파일 dropped"
    large = tmp_path / "large.txt"
    large.write_text("가" * 200_000, encoding="utf-8")
    page.set_input_files("#file", large)
    page.wait_for_function(
        "() => document.getElementById('message').textContent.includes('large.txt, the first')"
    )
    assert page.input_value("#text") == "가" * ((256 << 10) // 3), (
        "a character that the limit cuts is left out"
    )


def test_a_tokenizer_that_fails_hides_no_other(page, server, folder):
    page.expected_errors = True
    (folder / "zz-broken").mkdir(exist_ok=True)
    (folder / "zz-broken" / "tokenizer.json").write_text("{")
    open_page(page, server, "small", "zz-broken")
    type_text(page, "x")
    page.wait_for_function("() => document.getElementById('message').textContent.includes('broken')")
    page.wait_for_selector(".token")
    assert page.locator(".panel h3").all_inner_texts() == ["small"]
    shutil.rmtree(folder / "zz-broken")


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
    page.click("#options summary")
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
    page.click("#options summary")
    page.check("#layer-pieces")
    page.wait_for_selector(".piece-end")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 2")
    assert page.input_value("#text") == TEXT
    assert page.locator(".picker select").nth(1).input_value() == "large"
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


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_text_and_tokens_are_on_the_first_screen_and_nothing_covers_them(page, server, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.goto(server.url)
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 2")
    token = page.locator(".panel .token").nth(3)
    for shown in (page.locator("#text"), token):
        box = shown.bounding_box()
        assert 0 <= box["y"] < box["y"] + box["height"] < height
    token.click()
    page.wait_for_selector("#detail dl")
    tokens, detail = (
        page.locator(".panel .tokens").first.bounding_box(),
        page.locator("#detail").bounding_box(),
    )
    at_the_side = detail["x"] >= tokens["x"] + tokens["width"]
    below = detail["y"] >= tokens["y"] + tokens["height"]
    assert at_the_side if width > 1000 else below
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing is cut at the side"
    assert serious_faults(page) == []


def test_pointing_at_a_token_tells_what_it_is(page, server, folder):
    page.set_viewport_size({"width": 1280, "height": 800})
    open_page(page, server)
    type_text(page, "the the the")
    page.wait_for_selector(".token")
    page.locator(".token").nth(1).hover()
    page.wait_for_selector("#detail dl")
    tokenizer = tokenmill.Tokenizer.load(folder / "small")
    ids = tokenizer.encode("the the the")
    facts = dict(
        zip(
            page.locator("#detail dt").all_inner_texts(),
            page.locator("#detail dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["id"] == str(ids[1])
    assert facts["bytes"] == tokenizer.token_bytes(ids[1]).hex(" ")
    assert facts["count"] == f"{ids.count(ids[1])} of {len(ids)} tokens here"
    assert facts["rank"].replace(",", "").isdigit()
    trained = sum(tokenizer.encode(text).count(ids[1]) for text in TEXTS)
    assert facts["in training"] == f"{trained} times in the training text"


def test_copies_of_one_tokenizer_are_not_compared(page, server, folder):
    (folder / "a-copy").mkdir(exist_ok=True)
    (folder / "a-copy" / "tokenizer.json").write_bytes((folder / "large" / "tokenizer.json").read_bytes())
    page.goto(server.url)
    page.wait_for_function("() => document.querySelectorAll('.panel').length === 2")
    assert page.locator(".panel h3").all_inner_texts() == ["a-copy", "small"]
    shutil.rmtree(folder / "a-copy")


def test_the_card_of_each_tokenizer_is_a_tab(page, server, folder):
    open_page(page, server, "small", "large")
    page.get_by_role("tab", name="Card").click()
    page.wait_for_selector(".panel.card .cards")
    assert page.locator(".panel.card h3").filter(has_text=re.compile("^(small|large)$")).count() == 2
    shown = page.locator(".panel.card").first.locator(".cards dd").first.inner_text()
    assert shown == f"{tokenmill.Tokenizer.load(folder / 'small').vocab_size:,}"
    assert "v=card" in page.url
    page.click("#share")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert serious_faults(page) == []


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
