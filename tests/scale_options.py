"""The options of the scale tests as command-line flags."""


def flags(corpus, output):
    return [
        str(corpus / "part-*.jsonl"),
        "--tokenizer",
        str(corpus / "tok"),
        "--output",
        str(output),
        "--unit-bytes",
        str(1 << 16),
        "--no-show-progress",
        "--no-report",
    ]
