"""A served page and what is asked of it: used by the browser tests and by the script that takes screenshots."""

import json
import os
import subprocess
import sys
import time
import urllib.request

import pytest


class Server:
    """`tokenmill serve` as its user starts it, on a free port."""

    def __init__(self, *directories, env=os.environ, **streams):
        command = [sys.executable, "-m", "tokenmill", "serve", *map(str, directories), "--port", "0"]
        env = env | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, **streams)
        line = self.process.stdout.readline()
        assert "http://" in line, f"the server said {line!r}"
        self.url = next(word for word in line.split() if word.startswith("http://"))
        self._wait()

    def _wait(self):
        for _ in range(100):
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        pytest.fail(f"nothing answers at {self.url}")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        self.process.stdout.close()


def serious_faults(page):
    """What axe-core calls serious or critical on the page as it is now."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    # The page's own policy forbids foreign scripts, so axe comes in by the debugger's door, not by a script tag.
    results = axe.Axe().run(page).response
    return [
        (fault["id"], node["html"])
        for fault in results["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


def write_progress(root, **values):
    root.mkdir(parents=True, exist_ok=True)
    temporary = root / ".progress.tmp"
    temporary.write_text(json.dumps(values))
    temporary.rename(root / "progress.json")
