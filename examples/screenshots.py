"""Take the README's pictures: the playground with two tokenizers, and a report, from a fresh quickstart.

    python examples/screenshots.py docs/images

Needs the package `playwright` and a Chromium (Debian's will do); talks to loopback only.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import tokenmill
from tokenmill.jobs.quickstart import SAMPLE, quickstart

TEXT = "The mill turns: 방앗간이 돌고, 磨坊在转。\nfor (let i = 0; i < 1974; i++) { weight.push(i); }"


def main(folder):
    images = Path(folder)
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        quickstart(root)
        tokenmill.train([str(SAMPLE)], 6000, pattern="o200k").save(root / "larger")
        server = subprocess.Popen(
            [sys.executable, "-m", "tokenmill", "serve", work, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
            take(url, images)
        finally:
            server.terminate()
            server.wait()


def take(url, images):
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.goto(url)
        page.locator(".picker input").first.fill("tokenizer")
        page.locator(".picker input").first.press("Enter")
        page.click("#add")
        page.locator(".picker input").nth(1).fill("larger")
        page.locator(".picker input").nth(1).press("Enter")
        page.fill("#text", TEXT)
        page.wait_for_function("() => document.querySelectorAll('.panel .token').length > 20")
        page.locator(".panel").first.locator(".token").nth(1).click()
        page.wait_for_selector("#detail ol li")
        page.screenshot(path=images / "playground.png")
        page.goto(url + "runs/dataset/report")
        page.screenshot(path=images / "report.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
