"""datatrove: a JSON Lines reader and its document tokenizer, two local tasks."""

import json
import sys
from pathlib import Path

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer


def main(corpus, tokenizer, output, threads):
    corpus, output = Path(corpus), Path(output)
    # Its unit of parallel work is a file, so the file is cut for it.
    parts = Path(f"{output}-cache")
    parts.mkdir()
    lines = corpus.read_bytes().splitlines(keepends=True)
    count = int(threads)
    for number in range(count):
        (parts / f"{number}.jsonl").write_bytes(b"".join(lines[number::count]))
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(parts)),
            DocumentTokenizer(
                output_folder=str(output),
                tokenizer_name_or_path=str(Path(tokenizer) / "tokenizer.json"),
                eos_token="<|endoftext|>",
                shuffle_documents=False,
            ),
        ],
        tasks=count,
        workers=count,
        logging_dir=str(parts / "logs"),
    ).run()
    tokens = sum(path.stat().st_size for path in output.rglob("*.ds")) // 2
    (output / "tokens.json").write_text(json.dumps({"tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])
