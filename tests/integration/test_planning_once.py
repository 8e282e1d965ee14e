"""A process alone plans once and leads at once: each file is opened only as often as there is something to read."""

import json
import subprocess
import sys
import textwrap
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

FILES = 20
SAMPLED = 8  # sources.first_documents.FILES
CHILD = textwrap.dedent("""
    import json, sys
    from collections import Counter
    from pathlib import Path

    opens = Counter()

    def hear(event, arguments):
        if event == "open" and str(arguments[0]).endswith(".parquet"):
            opens[Path(arguments[0]).name] += 1

    sys.addaudithook(hear)

    import tokenmill
    from byte_tokenizer import ByteTokenizer
    from tokenmill import _core
    from tokenmill.pipeline import run

    def read_small(paths, most, inner=_core.read_small):
        opens.update(Path(path).name for path in paths)  # the core's own, which Python does not hear of
        return inner(paths, most)

    _core.read_small = read_small
    plans = []

    def make_plan(*arguments, inner=run.make_plan, **options):
        plans.append(inner(*arguments, **options))
        return plans[-1]

    run.make_plan = make_plan
    inputs, output = sys.argv[1:]
    made = tokenmill.prepare(inputs=inputs, tokenizer=ByteTokenizer(), output=output, verbose_level="ERROR", unit_bytes=1000)
    print(json.dumps({"plans": len(plans), "opens": opens, "documents": len(made), "shards": len(made.manifest.shards)}))
""")


def prepare(place):
    path = ":".join([*filter(None, sys.path), *(part for part in sys.path if part.endswith("tests"))])
    command = [sys.executable, "-c", CHILD, str(place / "in"), str(place / "out")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": path}, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_process_alone_plans_once_and_opens_each_file_for_a_reason(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        texts = [f"document {number} {line}" * 10 for line in range(10)]
        pq.write_table(pa.table({"text": texts}), tmp_path / "in" / f"{number:02}.parquet")
    found = prepare(tmp_path)
    assert found["plans"] == 1
    assert (found["documents"], found["shards"]) == (10 * FILES, FILES)
    opens = Counter(found["opens"])
    # What it is, where its row groups are, and its documents: three times. The sample opens some once more,
    # and the first file tells which column is the text.
    assert set(opens.values()) == {3, 4, 5}
    assert sorted(opens.values(), reverse=True)[: SAMPLED + 1] == [5] + [4] * (SAMPLED - 1) + [3]
    again = prepare(tmp_path)
    assert again["plans"] == 1
    # Nothing is planned that was: only what the files are, and which column is the text.
    assert sorted(again["opens"].values(), reverse=True) == [2] + [1] * (FILES - 1)
