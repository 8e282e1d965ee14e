"""Take the screenshots of the docs: the playground on three screens, a card, two reports, the page of a run.

    python examples/screenshots.py docs/images

Needs the packages `playwright` and `pillow`, a Chromium (Debian's will do) and fonts for Korean, Chinese and
Japanese; talks to loopback only.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import tokenmill
from tokenmill.cli.quickstart import SAMPLE

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main(folder):
    images = Path(folder)
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        subprocess.run([sys.executable, "-m", "tokenmill", "quickstart", "--output", str(root)], check=True)
        tokenmill.train(
            [str(SAMPLE)], 6000, pattern="o200k", ladder="1k,2k,4k", held_out=0.05, output=root / "larger"
        )
        server = subprocess.Popen(
            [sys.executable, "-m", "tokenmill", "serve", work, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
            with sync_playwright() as driver:
                program = shutil.which("chromium")
                browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
                take(browser, url, images)
                browser.close()
            for path in images.glob("*.png"):
                Image.open(path).convert("RGB").quantize(96).save(path, optimize=True)
        finally:
            server.terminate()
            server.wait()


def open_playground(browser, url, size, **options):
    page = browser.new_page(viewport=size, **options)
    page.goto(url)
    page.wait_for_function("() => document.querySelectorAll('.panel .token').length > 100")
    return page


def take(browser, url, images):
    page = open_playground(browser, url, DESKTOP)
    page.locator(".panel .token").nth(4).click()
    page.wait_for_selector("#detail ol li")
    page.screenshot(path=images / "playground.png")
    page.get_by_role("tab", name="Compare by script").click()
    page.wait_for_selector("#figures table")
    page.screenshot(path=images / "compare.png")
    page.get_by_role("tab", name="Card").click()
    page.wait_for_selector(".panel.card .cards")
    page.screenshot(path=images / "card.png")
    page.get_by_role("tab", name="Conversation").click()
    page.wait_for_selector(".panel .learned")
    page.screenshot(path=images / "conversation.png")
    page.goto(url + "runs/dataset/report")
    page.screenshot(path=images / "report.png")
    page.goto(url + "runs/larger/report")
    page.screenshot(path=images / "training.png", full_page=True)
    page.goto(url + "#runs")
    page.reload()
    page.get_by_role("button", name="dataset", exact=True).click()
    page.wait_for_selector(".account")
    page.get_by_role("button", name="Trace the step").click()
    page.wait_for_selector("#traced details")
    page.screenshot(path=images / "run.png")
    phone = open_playground(browser, url, PHONE)
    phone.screenshot(path=images / "playground-phone.png")
    dark = open_playground(browser, url, DESKTOP, color_scheme="dark")
    dark.locator(".panel .token").nth(4).hover()
    dark.screenshot(path=images / "playground-dark.png")


if __name__ == "__main__":
    main(*sys.argv[1:2])
