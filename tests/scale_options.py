"""The options of the scale tests, as keyword arguments and as command-line flags."""

NODE = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": 100 << 20, "memory": 2 << 30}


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
    given = [str(corpus / "part-*.jsonl"), "--tokenizer", str(corpus / "tok"), "--output", str(output)]
    return [*given, "--unit-bytes", str(1 << 16), "--no-show-progress", "--no-report"]
