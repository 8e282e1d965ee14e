"""Instructions per byte of the encoder on x86-64 and on ARM, counted by QEMU: no path may fall back to bytes.

    python benchmarks/instructions.py [--corpora DIR] [--languages en,fr] [--megabytes 0.5]

`crates/core/examples/encode_speed.rs` is built for both and run in QEMU's user mode with `instructions.c`, on AVX2, on NEON, and
on portable code. A figure is what a second turn (cold, unseen and seen text, and the scan alone) executes, over its bytes; the checksum of
the ids must be the same everywhere. Counting is exact, so a busy machine changes nothing; it says nothing of caches. Needs Debian's
`qemu-user` and `gcc-aarch64-linux-gnu`, and rustup's target.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import contest
import corpora
import materials

ARM = "aarch64-unknown-linux-gnu"
MACHINES = {
    "x86-64": (["qemu-x86_64", "-cpu", "max"], "release"),
    "ARM": (["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"], f"{ARM}/release"),
}
LINKER = {"CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": "aarch64-linux-gnu-gcc"}


def build(folder):
    """The plugin; the example is left where cargo puts it."""
    for target in ([], ["--target", ARM]):
        command = [
            "cargo",
            "build",
            "--quiet",
            "--release",
            "-p",
            "tokenmill-core",
            "--example",
            "encode_speed",
        ]
        subprocess.run([*command, *target], check=True, cwd=contest.ROOT, env=os.environ | LINKER)
    plugin = folder / "count.so"
    source = Path(__file__).with_name("instructions.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, source], check=True)
    return plugin


def executed(machine, instructions, plugin, arguments):
    """(how many instructions ran, the checksums that were printed)."""
    emulator, where = MACHINES[machine]
    setting = [] if instructions == "best" else ["-E", f"TOKENMILL_CPU={instructions}"]
    example = contest.ROOT / "target" / where / "examples" / "encode_speed"
    command = [*emulator, *setting, "-plugin", plugin, example, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split("instructions ")[-1]), re.findall(r"checksum (\w+)", done.stdout)


def main():
    options = contest.options(
        __doc__, languages=(*corpora.NAMES, *materials.PAGES), vocabulary="cl100k", megabytes=0.5
    )
    vocabulary = corpora.vocabulary_files(options.scratch)[options.vocabulary]
    print("| text | x86-64: AVX2, portable | ARM: NEON, portable | NEON / AVX2 |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plugin = build(folder)
        for language in options.languages:
            halves = corpora.halves(
                materials.documents(language, options.corpora, options.scratch), options.megabytes
            )
            files = [folder / "first", folder / "second"]
            for file, texts in zip(files, halves, strict=True):
                file.write_text("\0".join(texts), encoding="utf-8")
            size = files[0].stat().st_size + 2 * files[1].stat().st_size
            found, sums = {}, set()
            for machine in MACHINES:
                for instructions in ("best", "portable"):
                    case = (machine, instructions, plugin)
                    once, twice = (
                        executed(*case, [vocabulary, options.vocabulary, *files, turns]) for turns in "12"
                    )
                    found[machine, instructions] = (twice[0] - once[0]) / size
                    sums.add(tuple(twice[1]))
            if len(sums) != 1:
                sys.exit(f"{language}: other ids on another machine")
            x86, arm = ([found[machine, each] for each in ("best", "portable")] for machine in MACHINES)
            shown = (", ".join(f"{figure:.1f}" for figure in pair) for pair in (x86, arm))
            print(f"| {language} | {' | '.join(shown)} | {arm[0] / x86[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
