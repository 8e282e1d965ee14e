"""Whatever the system does to a job's output, the command ends with a sentence and its exit code."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

import tokenmill
from byte_tokenizer import ByteTokenizer
from small_tokenizers import write_bpe
from tokenmill.errors import ConfigError, InterruptedJobError, StoreError
from tokenmill.pipeline.convert import convert_dataset
from tokenmill.pipeline.output_faults import explain_faults


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"text": "some words of a document"}\n' * 400)
    return path


def prepare(corpus, output, **options):
    options = {"unit_bytes": 2000, "verbose_level": "ERROR", "show_progress": False} | options
    return tokenmill.prepare(inputs=str(corpus), tokenizer=ByteTokenizer(), output=str(output), **options)


def test_an_output_that_is_a_file(corpus, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written .*name another output"):
        prepare(corpus, tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "mine"


def test_an_output_that_is_removed_while_it_is_written(corpus, tmp_path):
    output, gone = tmp_path / "out", threading.Event()

    def remove(_text):
        if (output / "receipts").exists() and not gone.is_set():
            shutil.rmtree(output, ignore_errors=True)
            gone.set()
        return True

    with pytest.raises(InterruptedJobError, match=r"was removed while"):
        prepare(corpus, output, keep=remove, threads=1)
    assert prepare(corpus, output, keep=remove).manifest.documents == 400


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.ENOSPC, InterruptedJobError, "no space left"),
        (errno.EROFS, ConfigError, "cannot be written"),
        (errno.EACCES, ConfigError, "cannot be written"),
        (errno.EIO, InterruptedJobError, "the system failed"),
        (errno.EMFILE, InterruptedJobError, "the system failed"),
        (errno.ENOENT, InterruptedJobError, "was removed"),
    ],
)
def test_what_the_system_refuses_has_a_sentence(tmp_path, number, kind, words):
    output = tmp_path / "out"
    with pytest.raises(kind, match=words) as raised, explain_faults(output):
        raise OSError(number, os.strerror(number), str(output / "plan.json"))
    assert str(output) in str(raised.value)
    assert raised.value.exit_code in {2, 75}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc takes no new folder")
@pytest.mark.parametrize("output", ["/proc/nothing", "/proc/nothing/below"])
def test_an_output_that_cannot_be_created_was_not_removed(corpus, tmp_path, output):
    words = rf"^{output} cannot be created \(/proc/nothing: .*\)\. Name another output$"
    with pytest.raises(ConfigError, match=words):
        prepare(corpus, output)
    with pytest.raises(ConfigError, match=words):
        tokenmill.train(str(corpus), 260, output=output, progress=False)
    prepare(corpus, tmp_path / "made")
    with pytest.raises(ConfigError, match=words):
        convert_dataset(tmp_path / "made", output, "npy")


def test_a_file_where_a_tokenizer_should_go(corpus, tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot be written .*name another output"):
        tokenmill.train(str(corpus), 260, output=str(tmp_path / "out"), progress=False)
    assert (tmp_path / "out").read_text() == "mine"


def test_an_output_that_was_removed_can_be_made_again_and_nothing_is_left_of_the_trial(tmp_path):
    output = tmp_path / "above" / "out"
    with pytest.raises(InterruptedJobError, match=r"was removed while"), explain_faults(output):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(output))
    output.mkdir(parents=True)
    words = rf"^a part of {output} was removed while"
    with pytest.raises(InterruptedJobError, match=words), explain_faults(output):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(output / "shards" / "x"))
    assert list(output.iterdir()) == []


def test_errors_of_ours_pass_as_they_are(tmp_path):
    with pytest.raises(tokenmill.TokenmillError, match=r"^as it is$"), explain_faults(tmp_path):
        raise StoreError("as it is")


def write_script(folder):
    """The `tokenmill` script as an installer writes it, from the entry point that we declare."""
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, name = declared["project"]["scripts"]["tokenmill"].split(":")
    script = folder / "bin" / "tokenmill"
    script.parent.mkdir()
    script.write_text(
        f"import sys\nfrom {module} import {name}\nif __name__ == '__main__':\n    sys.exit({name}())\n"
    )
    return script


def _lines_before_the_answer():
    """How the first lines of the package are named in a traceback: until they are done, nobody can have answered."""
    lines = Path(tokenmill.__file__).read_text().splitlines()
    answered = next(at for at, line in enumerate(lines, 1) if "_signal.signal(" in line)
    return tuple(f'  File "{tokenmill.__file__}", line {line}, in' for line in range(1, answered + 1))


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT to one process")
@pytest.mark.parametrize("way", ["module", "script"])
def test_ctrl_c_at_any_moment(corpus, tmp_path, way):
    tokenizer = write_bpe(tmp_path / "tokenizer")
    start = ["-m", "tokenmill"] if way == "module" else [str(write_script(tmp_path))]
    command = [sys.executable, *start, "prepare", str(corpus), "--tokenizer", str(tokenizer)]
    ours, first = str(Path(tokenmill.__file__).parent), _lines_before_the_answer()
    for moment in range(0, 401, 20):
        process = subprocess.Popen(
            [*command, "--output", str(tmp_path / f"out-{moment}")],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        time.sleep(moment / 1000)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        # A shell shows the end by SIGINT as 130. What Python prints before we could answer is its own.
        mine = [line for line in told.splitlines() if ours in line and not line.startswith(first)]
        assert process.returncode in {75, -signal.SIGINT, 0} or not mine, (moment, told)
        assert "Traceback" not in told or not mine, (moment, told)


def test_a_program_that_imports_us_keeps_its_ctrl_c():
    code = "import signal, tokenmill; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_ctrl_c_after_the_work_is_no_traceback():
    code = "import sys, tokenmill.cli as cli\n"
    code += "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    code += "sys.exit = lambda code: signal.raise_signal(signal.SIGINT)\n"
    code += "cli.main(['no-such-command'])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert "Traceback" not in done.stderr


LOST = """
import signal, time, weakref
from tokenmill.cli import _Interrupt

class Thing: pass
signal.signal(signal.SIGINT, signal.SIG_DFL)
thing = Thing()
weak = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
try:
    with _Interrupt().answer():
        del thing
        time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT to one process")
def test_ctrl_c_where_python_cannot_raise_it_still_counts():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
