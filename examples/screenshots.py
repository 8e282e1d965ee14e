"""Take the screenshots of the docs: the playground, its tabs, a report, the page of a run.

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
from tokenmill.cli.quickstart import SAMPLE

SIZE = {"width": 1100, "height": 900}


def main(folder):
    images = Path(folder)
    images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        subprocess.run([sys.executable, "-m", "tokenmill", "quickstart", "--output", str(root)], check=True)
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
        page = browser.new_page(viewport=SIZE)
        page.goto(url)  # tokenizers side by side on the sample, without a click
        page.wait_for_function("() => document.querySelectorAll('.panel .token').length > 100")
        page.screenshot(path=images / "playground.png")
        page.get_by_role("tab", name="Compare by script").click()
        page.wait_for_selector("#figures table")
        page.screenshot(path=images / "compare.png")
        page.get_by_role("tab", name="Lengths of tokens").click()
        page.wait_for_selector(".legend")
        page.screenshot(path=images / "lengths.png")
        page.get_by_role("tab", name="Conversation").click()
        page.wait_for_selector(".panel .learned")
        page.screenshot(path=images / "conversation.png")
        page.goto(url + "#runs")
        page.reload()
        page.get_by_role("button", name="dataset", exact=True).click()
        page.wait_for_selector(".account")
        page.get_by_role("button", name="Trace the step").click()
        page.wait_for_selector("#traced details")
        page.locator("#traced summary").first.click()
        page.screenshot(path=images / "run.png", full_page=True)
        page.goto(url + "runs/dataset/report")
        page.screenshot(path=images / "report.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
