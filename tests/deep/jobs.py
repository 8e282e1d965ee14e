"""Every kind of job that the campaign hurts. Small enough to take a tenth of a second, with several units each."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from harness import KILL_BEFORE, Campaign, Fault

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["alpha", "beta", "감마", "델타", "epsilon", "<|endoftext|>", "  ", "\n", "zeta", "1234", "the"]


def records(documents: int, seed: int) -> list[dict[str, object]]:
    chosen = random.Random(seed)
    made = []
    for number in range(documents):
        text = " ".join(chosen.choices(WORDS, k=chosen.randrange(60)))
        made.append({"id": f"d{number}", "text": text, "lang": chosen.choice(["en", "ko"])})
    return made


def json_lines(documents: int, seed: int) -> bytes:
    return "".join(
        json.dumps(record, ensure_ascii=False) + "\n" for record in records(documents, seed)
    ).encode()


def write_corpus(directory: Path, kind: str = "jsonl") -> None:
    """Two files of one kind; the second repeats some documents of the first."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, documents, seed in (("a", 160, 1), ("b", 60, 1)):
        if kind == "jsonl":
            (directory / f"{name}.jsonl").write_bytes(json_lines(documents, seed))
        elif kind == "jsonl.gz":
            (directory / f"{name}.jsonl.gz").write_bytes(gzip.compress(json_lines(documents, seed), mtime=0))
        elif kind == "jsonl.zst":
            compressed = pa.compress(json_lines(documents, seed), codec="zstd", asbytes=True)
            (directory / f"{name}.jsonl.zst").write_bytes(compressed)
        elif kind == "csv":
            rows = [f'{r["id"]},"{r["text"]}",{r["lang"]}\n' for r in records(documents, seed)]
            (directory / f"{name}.csv").write_text("id,text,lang\n" + "".join(rows))
        elif kind == "txt":
            texts = [str(r["text"]).replace("\n", " ") + "\n" for r in records(documents, seed)]
            (directory / f"{name}.txt").write_text("".join(texts))
        else:
            table = pa.Table.from_pylist(records(documents, seed))
            pq.write_table(table, directory / f"{name}.parquet", row_group_size=40)


def write_tokenizer(campaign: Campaign, inputs: Path) -> Path:
    """A small real tokenizer, trained once for all jobs."""
    shared = campaign.root / "tokenizer"
    if not shared.exists():
        corpus = inputs / "for-the-tokenizer"
        write_corpus(corpus)
        options = ["--vocab-size", 400, "--special-token", "<|endoftext|>", "--quiet"]
        run = campaign.run(["train", corpus / "a.jsonl", "--output", shared, *options], timeout=120)
        assert run.code == 0, run.err
        shutil.rmtree(corpus)
    return shared


@dataclass(frozen=True)
class Prepare:
    """`tokenmill prepare`; `resumed` starts from what a killed run left."""

    name: str
    options: tuple[object, ...] = ()
    corpus: str = "jsonl"
    resumed: bool = False
    unit_bytes: int = 20_000
    # One job writes a report: its calls are the same whatever the format of the dataset.
    report: bool = False

    def make(self, campaign: Campaign, inputs: Path) -> Path | None:
        write_tokenizer(campaign, inputs)
        write_corpus(inputs / "corpus", self.corpus)
        if not self.resumed:
            return None
        out = inputs / "before"
        campaign.run(self.argv(inputs, out), fault=Fault("rename", 8, KILL_BEFORE))
        assert (out / "plan.json").exists()
        assert not (out / "manifest.json").exists()
        return out

    def argv(self, inputs: Path, out: Path) -> list[object]:
        tokenizer = inputs.parent.parent / "tokenizer"
        return [
            "prepare", inputs / "corpus", "--tokenizer", tokenizer, "--output", out, "--unit-bytes",
            self.unit_bytes, "--no-show-progress", "--threads", 2, "--report" if self.report else "--no-report",
            *self.options,
        ]  # fmt: skip


@dataclass(frozen=True)
class Train:
    """`tokenmill train`; `resumed` starts from a checkpoint of a killed one."""

    name: str
    options: tuple[object, ...] = ()
    corpus: str = "jsonl"

    def make(self, campaign: Campaign, inputs: Path) -> Path | None:
        write_corpus(inputs / "corpus", self.corpus)
        return None

    def argv(self, inputs: Path, out: Path) -> list[object]:
        return [
            "train", inputs / "corpus", "--output", out, "--vocab-size", 500, "--special-token", "<|endoftext|>",
            "--quiet", "--threads", 2, *(str(option).replace("OUT", str(out)) for option in self.options),
        ]  # fmt: skip


@dataclass(frozen=True)
class Rewrite:
    """`tokenmill dataset …` that writes a finished dataset again; `killed_at` starts from a run killed at that rename."""

    name: str
    command: tuple[object, ...]
    source: tuple[object, ...] = ("--provenance",)
    killed_at: int | None = None

    def make(self, campaign: Campaign, inputs: Path) -> Path | None:
        job = Prepare("source", self.source, unit_bytes=8000)
        job.make(campaign, inputs)
        assert campaign.run(job.argv(inputs, inputs / "dataset")).code == 0
        gone = [{"document": 3}, {"document": 4, "reason": "asked"}, {"document": 40}]
        (inputs / "gone.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gone))
        assert campaign.run(Train("other").argv(inputs, inputs / "tokenizer")).code == 0
        less = Rewrite("less", REMOVE).argv(inputs, inputs / "less")
        assert self.name != "rebuild" or campaign.run(less).code == 0
        if self.killed_at is None:
            return None
        out = inputs / "before"
        campaign.run(self.argv(inputs, out), fault=Fault("rename", self.killed_at, KILL_BEFORE))
        assert any((out / "receipts").glob("*.json"))
        assert not (out / "manifest.json").exists()
        return out

    def argv(self, inputs: Path, out: Path) -> list[object]:
        places = {"IN": inputs / "dataset", "LESS": inputs / "less", "OUT": out}
        places |= {"GONE": inputs / "gone.jsonl", "TOKENIZER": inputs / "tokenizer"}
        return ["dataset", *(places.get(str(part), part) for part in self.command)]


@dataclass(frozen=True)
class Commit:
    """`tokenmill dataset commit` of a job whose units are all done."""

    name: str
    format: str = "tokenmill"

    def make(self, campaign: Campaign, inputs: Path) -> Path | None:
        job = Prepare("source", ("--format", self.format))
        job.make(campaign, inputs)
        out = inputs / "before"
        assert campaign.run(job.argv(inputs, out)).code == 0
        (out / "manifest.json").unlink()
        return out

    def argv(self, inputs: Path, out: Path) -> list[object]:
        return ["dataset", "commit", out]


FORMATS = ("tokenmill", "megatron", "arrow", "parquet", "npy", "mds", "litdata")
FILTERS = (
    "--deduplicate", "--provenance", "--id-field", "id", "--min-chars", 10, "--max-tokens", 300, "--where",
    "lang == 'ko'",
)  # fmt: skip
COLUMNS = ("--columns", "labels", "--columns", "attention_mask", "--columns", "document_ids")
ROWS = ("--context-length", 64, "--packing", "bestfit", *COLUMNS)
REMOVE = ("remove", "IN", "--documents", "GONE", "--output", "OUT")
TRANSCODE = ("transcode", "IN", "--tokenizer", "TOKENIZER", "--output", "OUT", "--threads", 2)
ALL = [
    Prepare("prepare-tokenmill", unit_bytes=8000, report=True),
    *(Prepare(f"prepare-{name}", ("--format", name)) for name in FORMATS[1:]),
    Prepare("prepare-filters", FILTERS),
    Prepare("prepare-skip", ("--on-error", "skip")),
    Prepare("prepare-bestfit", ("--packing", "bestfit", "--context-length", 64, "--format", "parquet", *COLUMNS)),
    Prepare("prepare-window", ("--packing", "window", "--context-length", 64, "--overlap", 8, "--format", "arrow")),
    Prepare("prepare-in-memory", ("--keep-in-memory", "--num-shards", 3)),
    *(Prepare(f"prepare-from-{kind}", ("--on-error", "skip"), kind) for kind in ("parquet", "csv", "txt", "jsonl.gz", "jsonl.zst")),
    Prepare("prepare-huggingface", ("--strategy", "huggingface")),
    Prepare("resume", FILTERS, resumed=True),
    Prepare("resume-arrow", ("--format", "arrow"), resumed=True),
    Train("train", ("--save-as", "all")),
    Train("train-counts", ("--save-counts", "OUT/counts.parquet", "--memory-budget", "100KB", "--held-out", "0.1")),
    Train("train-resume", ("--resume", "--checkpoint-every", "40")),
    Rewrite("convert-megatron", ("convert", "IN", "OUT", "--format", "megatron")),
    Rewrite("convert-arrow", ("convert", "IN", "OUT", "--format", "arrow")),
    Rewrite("convert-rows", ("convert", "IN", "OUT", "--format", "parquet", *ROWS)),
    Rewrite("convert-mds", ("convert", "IN", "OUT", "--format", "mds"), ("--format", "megatron")),
    Rewrite("convert-litdata", ("convert", "IN", "OUT", "--format", "litdata", "--context-length", 64)),
    Rewrite("convert-resume", ("convert", "IN", "OUT", "--format", "tokenmill"), ("--format", "arrow"), 14),
    Rewrite("remove", REMOVE, FILTERS),
    Rewrite("remove-megatron", REMOVE, ("--format", "megatron")),
    Rewrite("remove-resume", REMOVE, FILTERS, 14),
    Rewrite("transcode", TRANSCODE),
    Rewrite("transcode-resume", TRANSCODE, ("--format", "megatron"), 14),
    Rewrite("rebuild", ("rebuild", "LESS", "--output", "OUT"), FILTERS),
    Commit("commit"),
    Commit("commit-mds", "mds"),
]  # fmt: skip
JOBS = {job.name: job for job in ALL}
