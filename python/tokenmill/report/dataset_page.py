"""A dataset's report as one page: every plot with its table, every number from `report.json`."""

from __future__ import annotations

import shlex
from typing import Any

from tokenmill.report.page import (
    Axis,
    cards,
    code,
    draw_bars,
    draw_histogram,
    draw_line,
    draw_timeline,
    format_number,
    page,
    paragraph,
    section,
    table,
)

MOST_UNITS = 100  # a timeline with more rows cannot be read; the longest are shown


def render_dataset(data: dict[str, Any]) -> str:
    """The HTML of one dataset's report."""
    account, vocabulary = data["account"], data["vocabulary"]
    parts = [
        cards(
            {
                "documents": f"{data['documents']:,}",
                "tokens": f"{data['tokens']:,}",
                "bytes per token": f"{_ratio(account['text_bytes'], account['tokens']['encoded']):.3f}",
                "on disk": f"{format_number(data['disk_bytes'])}B",
                "vocabulary used": f"{100 * _ratio(vocabulary['used'], vocabulary['size']):.1f} %",
                "seconds": f"{data['run']['seconds']:,.1f}",
            }
        ),
        _render_counts(data["shards"]),
        _render_account(account),
        _render_throughput(data["run"]),
        _render_sources(data["sources"]),
        _render_scripts(data["scripts"]),
        _render_lengths(data["lengths"]),
        _render_packing(data["packing"], account),
        _render_vocabulary(data["vocabulary"]),
        _render_rejects(data["rejects"], account),
        _render_units(data["run"]),
        _render_resources(data["run"]),
        _render_provenance(data),
    ]
    return page(f"Report of {data['name']}", [part for part in parts if part])


def _render_counts(shards: dict[str, int]) -> str:
    if shards["counted"] == shards["all"]:
        return ""
    return paragraph(
        f"Vocabulary, scripts, lengths and split documents were counted in {shards['counted']:,} of "
        f"{shards['all']:,} shards, spread over the dataset; all other figures are for the whole dataset."
    )


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _render_account(account: dict[str, Any]) -> str:
    tokens, documents = account["tokens"], account["documents"]
    rows = [("documents read", documents["read"]), ("documents written", documents["written"])]
    rows += [(f"documents dropped: {reason}", count) for reason, count in documents["dropped"].items()]
    rows += [
        (f"tokens {name}", tokens[name])
        for name in ("read", "encoded", "added", "written", "repeated", "padding", "stored")
    ]
    rows += [(f"tokens dropped: {reason}", count) for reason, count in tokens["dropped"].items()]
    rows += [("special-token strings inside documents", account["special_strings"])]
    learned = account.get("learned")
    if learned is not None:
        rows += [(f"learned tokens {name}", learned[name]) for name in ("read", "written", "repeated")]
        rows += [(f"learned tokens dropped: {reason}", count) for reason, count in learned["dropped"].items()]
        rows += [(f"learned tokens of {role}", count) for role, count in learned["roles"].items()]
    return section(
        "The account",
        paragraph(
            "Read = written + dropped, for documents and for tokens." + _describe_learned_share(account)
        ),
        table(("what", "count"), rows, folded=False),
    )


def _describe_learned_share(account: dict[str, Any]) -> str:
    """The share of tokens that are learned, where the dataset is of conversations."""
    learned = account.get("learned")
    if learned is None:
        return ""
    share = _ratio(learned["written"], account["tokens"]["written"])
    return f" Of all tokens written, {share:.1%} are learned."


def _render_throughput(run: dict[str, Any]) -> str:
    points = run["throughput"]
    if not points:
        return ""
    x = Axis.over("seconds", [p["seconds"] for p in points], zero=True)
    y = Axis.over("MB of input per second", [p["bytes_per_second"] / 1e6 for p in points], zero=True)
    chart = draw_line(
        x,
        y,
        {"MB/s": [(p["seconds"], p["bytes_per_second"] / 1e6) for p in points]},
        [(at, "restart") for at in run["restarts"]],
    )
    rows = [(p["seconds"], p["bytes_per_second"] / 1e6, p["tokens_per_second"]) for p in points]
    words = f"{run['runs']} run(s), {len(run['restarts'])} restart(s)."
    return section(
        "Throughput over time", chart, paragraph(words), table(("seconds", "MB/s", "tokens/s"), rows)
    )


def _render_sources(sources: list[dict[str, Any]]) -> str:
    shown = sorted(sources, key=lambda s: -s["tokens"])[:30]
    rows = [(s["path"], s["documents"], s["tokens"], s["text_bytes"], s["bytes_per_token"]) for s in sources]
    header = ("source", "documents", "tokens", "bytes of text", "bytes per token")
    return section(
        "Sources",
        draw_bars([s["path"] for s in shown], [s["tokens"] for s in shown], "tokens by source"),
        table(header, rows),
    )


def _render_scripts(scripts: list[dict[str, Any]]) -> str:
    if not scripts:
        return ""
    rows = [(s["script"], s["tokens"], s["bytes"], s["bytes_per_token"]) for s in scripts]
    chart = draw_bars(
        [s["script"] for s in scripts], [s["bytes_per_token"] for s in scripts], "bytes per token by script"
    )
    return section(
        "Bytes per token by script", chart, table(("script", "tokens", "bytes", "bytes per token"), rows)
    )


def _render_lengths(lengths: dict[str, Any]) -> str:
    classes = lengths["classes"]
    if not classes:
        return ""
    context = lengths["context_length"]
    marks = [(float(context), "context length")] if context else []
    x = Axis.over("tokens in a document", [1, max(2, *(c["to"] + 1 for c in classes))], log=True)
    chart = draw_histogram(
        x, [(max(c["from"], 1), c["to"] + 1, c["documents"]) for c in classes], "documents", marks
    )
    y = Axis("% of documents no longer than this", 0, 100)
    curve = draw_line(x, y, {"cumulative": [(c["to"] + 1, c["cumulated_percent"]) for c in classes]}, marks)
    rows = [(f"{c['from']:,} to {c['to']:,}", c["documents"], c["cumulated_percent"]) for c in classes]
    words = f"Mean {lengths['mean']:,.1f} tokens, longest {lengths['longest']:,}."
    return section(
        "Document lengths",
        chart,
        curve,
        paragraph(words),
        table(("tokens", "documents", "cumulative %"), rows),
    )


def _render_packing(packing: dict[str, Any], account: dict[str, Any]) -> str:
    parts = {
        "written once": packing["written"],
        "repeated by overlap": packing["repeated"],
        "padding": packing["padding"],
    }
    parts |= {f"dropped: {reason}": count for reason, count in packing["dropped"].items()}
    words = f"Mode {packing['mode']}"
    words += (
        f", context length {packing['context_length']:,}, overlap {packing['overlap']:,}"
        if packing["context_length"]
        else ""
    )
    words += f"; {packing['fill_percent']:.2f} % of the stored tokens are not padding."
    if packing["split_documents"] is not None:
        words += f" {packing['split_documents']:,} documents are in more than one row."
    chart = draw_bars(list(parts), list(parts.values()), "tokens by what happened to them")
    stored = account["tokens"]["stored"]
    return section(
        "Packing", chart, paragraph(words), table(("tokens", "count"), [*parts.items(), ("stored", stored)])
    )


def _render_vocabulary(vocabulary: dict[str, Any]) -> str:
    curve = vocabulary["rank_frequency"]
    words = f"{vocabulary['used']:,} of {vocabulary['size']:,} ids occur; {vocabulary['unused']:,} never do."
    top = table(
        ("token", "id", "count"), [(repr(t["token"]), t["id"], t["count"]) for t in vocabulary["top"]]
    )
    if not curve:
        return section("Vocabulary", paragraph(words), top)
    x = Axis.over("rank", [p["rank"] for p in curve], log=True)
    y = Axis.over("occurrences", [p["count"] for p in curve], log=True)
    chart = draw_line(x, y, {"rank-frequency": [(p["rank"], p["count"]) for p in curve]})
    unused = (
        paragraph("Unused, for example: " + " ".join(map(repr, vocabulary["unused_sample"][:20])), soft=True)
        if vocabulary["unused"]
        else ""
    )
    return section("Vocabulary", chart, paragraph(words), unused, top)


def _render_rejects(rejects: dict[str, Any], account: dict[str, Any]) -> str:
    if not rejects["by_reason"] and not rejects["replaced"]:
        read = account["documents"]["read"]
        return section("Rejects", paragraph(f"None: all {read:,} records could be read as they were."))
    rows = [("rejected", reason, count) for reason, count in rejects["by_reason"].items()]
    rows += [("replaced", reason, count) for reason, count in rejects["replaced"].items()]
    places = [(p["reason"], p["place"], p["sample"]) for p in rejects["places"]]
    return section(
        "Rejects",
        table(("what", "reason", "records"), rows, folded=False),
        table(("reason", "place", "begins with"), places),
    )


def _render_units(run: dict[str, Any]) -> str:
    units = run["units"]
    if not units:
        return ""
    shown = sorted(
        sorted(units, key=lambda u: -u["seconds"])[:MOST_UNITS], key=lambda u: (u["start"], u["unit"])
    )
    spans = [
        (u["start"], u["start"] + u["seconds"], f"unit {u['unit']}: {u['seconds']:.2f} s", u["straggler"])
        for u in shown
    ]
    slow = sum(u["straggler"] for u in units)
    words = f"{len(units):,} units; {slow} took more than three times the median" + (
        " (shown in the second colour)." if slow else "."
    )
    rows = [(u["unit"], u["source"] or "", u["start"], u["seconds"], u["tokens"]) for u in shown]
    return section(
        "Units",
        draw_timeline(spans, "seconds"),
        paragraph(words),
        table(("unit", "source", "start", "seconds", "tokens"), rows),
    )


def _render_resources(run: dict[str, Any]) -> str:
    samples = [s for s in run["samples"] if s["rss"] is not None]
    if not samples:
        return ""
    budget = run["budget"].get("memory")
    heights = [s["rss"] / 1e6 for s in samples] + ([budget / 1e6] if budget else [])
    x = Axis.over("seconds", [s["seconds"] for s in samples], zero=True)
    series = {"resident memory": [(s["seconds"], s["rss"] / 1e6) for s in samples]}
    if budget:
        series["budget"] = [(x.low, budget / 1e6), (x.high, budget / 1e6)]
    chart = draw_line(x, Axis.over("MB of memory", heights, zero=True), series)
    rows = [(s["seconds"], s["rss"], s["cpu_percent"] or 0.0, s["disk_bytes"] or 0) for s in samples]
    peak = max(s["rss"] for s in samples)
    words = f"Peak {format_number(peak)}B of memory" + (
        f" against a budget of {format_number(budget)}B." if budget else "."
    )
    return section(
        "Memory, CPU and disk",
        chart,
        paragraph(words),
        table(("seconds", "memory", "CPU %", "bytes written"), rows),
    )


def _render_provenance(data: dict[str, Any]) -> str:
    run, tokenizer = data["run"], data["tokenizer"]
    rows = [
        ("content hash", data["content_hash"]),
        ("tokenizer", tokenizer["name"]),
        ("tokenizer fingerprint", tokenizer["fingerprint"]),
        ("format", f"{data['format']}, {data['layout']}, {data['dtype']}"),
        *((f"version of {name}", version) for name, version in run["versions"].items()),
        *((name, str(value)) for name, value in run["machine"].items()),
        *((name, repr(value)) for name, value in data["provenance"]["config"].items()),
    ]
    inputs = [(i["path"], i["size"], i["identity"]) for i in data["provenance"]["inputs"]]
    command = [paragraph("To repeat this run:"), code(shlex.join(run["command"]))] if run["command"] else []
    return section(
        "Provenance", *command, table(("what", "value"), rows), table(("input", "bytes", "identity"), inputs)
    )
