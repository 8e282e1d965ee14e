"""A real terminal of any width, by tmux: what a person would see, while a command runs and at its end."""

import shlex
import subprocess
import time
from dataclasses import dataclass

SETTINGS = """\
set -g history-limit 5000
set -g remain-on-exit on
set -g status off
set -g default-terminal screen-256color
"""


@dataclass(frozen=True)
class Session:
    """The exit code; the lines as the program wrote them; the end with its colours; and the screens on the way."""

    code: int
    lines: list[str]
    coloured: str
    screens: list[str]


class Terminal:
    def __init__(self, folder, columns, environment):
        self._folder, self._columns, self._runs = folder, columns, 0
        self._environment = {"TERM": "screen-256color", **environment}
        (folder / "tmux.conf").write_text(SETTINGS, encoding="utf-8")

    def run(self, command, place, timeout=120):
        """Run a line of a shell in a terminal of its own, until it has ended."""
        self._runs += 1  # a server each: one that is being stopped would refuse the next session
        ended = self._folder / f"ended-{self._runs}"
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._environment.items())
        script = f"({command}); echo $? > {shlex.quote(str(ended))}.part; mv {shlex.quote(str(ended))}.part {shlex.quote(str(ended))}"
        self._tmux(
            "new-session", "-d", "-x", str(self._columns), "-y", "50", "-c", str(place),
            f"env -i {variables} sh -c {shlex.quote(script)}",
        )  # fmt: skip
        try:
            screens, until = [], time.monotonic() + timeout
            while not ended.exists():
                assert time.monotonic() < until, f"{command} has not ended: {screens[-1:]}"
                screens.append(self._tmux("capture-pane", "-p", "-e"))
                time.sleep(0.05)
            # Whole lines: where the terminal itself had to break one, tmux puts it together again.
            lines = self._tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()
            coloured = self._tmux("capture-pane", "-p", "-e", "-S", "-")
            lines = [line.rstrip() for line in lines if not line.startswith("Pane is dead")]
            return Session(int(ended.read_text()), lines, coloured, screens)
        finally:
            self._tmux("kill-server")

    def _tmux(self, *words):
        base = [
            "tmux",
            "-u",
            "-S",
            str(self._folder / f"socket-{self._runs}"),
            "-f",
            str(self._folder / "tmux.conf"),
        ]
        return subprocess.run(
            [*base, *words], capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout
