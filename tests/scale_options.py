"""The options of the scale tests, as keyword arguments and as command-line flags."""


def options(corpus, output, **more):
    return {
        "inputs": [str(corpus / "part-*.jsonl")],
        "tokenizer": str(corpus / "tok"),
        "output": str(output),
        "unit_bytes": 1 << 16,
        "show_progress": False,
        "verbose_level": "WARNING",
        "report": False,
    } | more


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
