"""Many processes take and release one lease as fast as they can: never two at once, never an error."""

import subprocess
import sys
import textwrap
from pathlib import Path

CONTENDER = textwrap.dedent("""
    import os, sys, time
    from pathlib import Path
    from tokenmill.pipeline.launch import find_launch
    from tokenmill.pipeline.lease import Lease

    root, until = Path(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    turns = 0
    while time.monotonic() < until:
        lease = Lease(root, find_launch({}), {})
        if lease.take():
            inside = os.open(root / "inside", os.O_CREAT | os.O_EXCL)
            os.close(inside)
            (root / "inside").unlink()
            lease.release()
            turns += 1
    print(turns)
""")


def test_a_lease_is_for_one_at_a_time(tmp_path):
    command = [sys.executable, "-c", CONTENDER, str(tmp_path), "3"]
    path = str(Path(__file__).parents[2] / "python")
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"PYTHONPATH": path}
        )
        for _ in range(4)
    ]
    ended = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, ended
    assert sum(int(out) for out, _ in ended) > 100
    assert list(tmp_path.iterdir()) == []
