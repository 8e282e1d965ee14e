"""One run of one system as a process of its own: wall seconds, CPU seconds of it and its children, peak memory."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WATCH = Path(__file__).parent / "prepare_systems" / "peak.py"


def measure(command, environment, *, several=False):
    """The three figures; raises `RuntimeError` with the last line said if the run fails.

    Only systems of `several` processes need someone who adds up their memory, at some CPU of its own.
    """
    watched = [sys.executable, str(WATCH)] if several else []
    with tempfile.TemporaryFile("w+") as said:
        started = time.perf_counter()
        process = subprocess.Popen([*watched, *command], env=environment, stdout=said, stderr=said)
        peak = Peak(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        said.seek(0)
        lines = said.read().strip().splitlines() or [""]
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {lines[-2 if watched else -1 :][0]}")
    held = int(lines[-1].split()[-1]) if watched else peak.bytes
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak": held}


class Peak(threading.Thread):
    """The most memory that a process held, looked up while it runs.

    What the system tells at its end (`ru_maxrss`) is at least what this process held when it started the other.
    """

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = Path(f"/proc/{pid}/status")
        self.bytes = 0
        self.start()

    def run(self):
        try:
            while found := re.search(r"VmHWM:\s+(\d+) kB", self.status.read_text()):
                self.bytes = int(found[1]) * 1024
                time.sleep(0.01)
        except OSError:
            return
