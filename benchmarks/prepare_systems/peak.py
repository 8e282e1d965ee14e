"""Run a command; the last line of stderr is the most memory that it and its children held at once."""

import subprocess
import sys
import time
from contextlib import suppress

import psutil


def held(process):
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_info().rss
        except psutil.Error:
            continue
    return total


def main(command):
    started = subprocess.Popen(command)
    process, peak = psutil.Process(started.pid), 0
    while started.poll() is None:
        with suppress(psutil.Error):
            peak = max(peak, held(process))
        time.sleep(0.02)
    print(f"peak {peak}", file=sys.stderr)
    return started.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
