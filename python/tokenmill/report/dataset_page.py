"""Render the report of a dataset as one page: every plot with its table, every number from `report.json`."""

from __future__ import annotations

import shlex
from typing import Any

from tokenmill.report.page import (
    Axis,
    Box,
    cards,
    code,
    draw_bars,
    draw_plot,
    format_number,
    page,
    paragraph,
    section,
    table,
)

MOST_UNITS = 100  # a timeline with more rows cannot be read; the longest are shown
MOST_SOURCES = 30


def render_dataset(data: dict[str, Any]) -> str:
    """Return the HTML of the report of a dataset."""
    account, vocabulary, shards = data["account"], data["vocabulary"], data["shards"]
    parts = [
        cards(
            {
                "documents": f"{data['documents']:,}",
                "tokens": f"{data['tokens']:,}",
                "bytes per token": f"{account['text_bytes'] / max(account['tokens']['encoded'], 1):.3f}",
                "on disk": f"{format_number(data['disk_bytes'])}B",
                "vocabulary used": f"{100 * vocabulary['used'] / max(vocabulary['size'], 1):.1f} %",
                "seconds": f"{data['run']['seconds']:,.1f}",
            }
        )
    ]
    if shards["counted"] != shards["all"]:
        words = (
            f"Vocabulary, scripts, lengths and split documents were counted in {shards['counted']:,} of "
            f"{shards['all']:,} shards, spread over the dataset; all other figures are for the whole dataset."
        )
        parts.append(paragraph(words))
    parts += [
        _render_account(account),
        _render_throughput(data["run"]),
        _render_sources(data["sources"]),
        _render_scripts(data["scripts"]),
        _render_lengths(data["lengths"]),
        _render_packing(data["packing"], account["tokens"]["stored"]),
        _render_vocabulary(vocabulary),
        _render_rejects(data["rejects"], account["documents"]["read"]),
        _render_units(data["run"]["units"]),
        _render_resources(data["run"]),
        _render_provenance(data),
    ]
    return page(f"Report of {data['name']}", parts)


def _render_account(account: dict[str, Any]) -> str:
    tokens, documents, learned = account["tokens"], account["documents"], account.get("learned")
    rows = [(f"documents {name}", documents[name]) for name in ("read", "written")]
    rows += [(f"documents dropped: {reason}", count) for reason, count in documents["dropped"].items()]
    names = ("read", "encoded", "added", "written", "repeated", "padding", "stored")
    rows += [(f"tokens {name}", tokens[name]) for name in names]
    rows += [(f"tokens dropped: {reason}", count) for reason, count in tokens["dropped"].items()]
    rows += [("special-token strings inside documents", account["special_strings"])]
    words = "Read = written + dropped, for documents and for tokens."
    if learned is not None:
        rows += [(f"learned tokens {name}", learned[name]) for name in ("read", "written", "repeated")]
        rows += [(f"learned tokens dropped: {reason}", count) for reason, count in learned["dropped"].items()]
        rows += [(f"learned tokens of {role}", count) for role, count in learned["roles"].items()]
        share = learned["written"] / max(tokens["written"], 1)
        words += f" Of all tokens written, {share:.1%} are learned."
    return section("The account", paragraph(words), table(("what", "count"), rows, folded=False))


def _render_throughput(run: dict[str, Any]) -> str:
    rows = [(p["seconds"], p["bytes_per_second"] / 1e6, p["tokens_per_second"]) for p in run["throughput"]]
    if not rows:
        return ""
    chart = draw_plot(
        Axis.over("seconds", [row[0] for row in rows], zero=True),
        Axis.over("MB of input per second", [row[1] for row in rows], zero=True),
        lines={"MB/s": [row[:2] for row in rows]},
        marks=[(at, "restart") for at in run["restarts"]],
    )
    words = f"{run['runs']} run(s), {len(run['restarts'])} restart(s)."
    return section(
        "Throughput over time", chart, paragraph(words), table(("seconds", "MB/s", "tokens/s"), rows)
    )


def _render_sources(sources: list[dict[str, Any]]) -> str:
    shown = sorted(sources, key=lambda s: -s["tokens"])[:MOST_SOURCES]
    rows = [(s["path"], s["documents"], s["tokens"], s["text_bytes"], s["bytes_per_token"]) for s in sources]
    header = ("source", "documents", "tokens", "bytes of text", "bytes per token")
    chart = draw_bars({s["path"]: s["tokens"] for s in shown}, "tokens by source")
    return section("Sources", chart, table(header, rows))


def _render_scripts(scripts: list[dict[str, Any]]) -> str:
    if not scripts:
        return ""
    rows = [(s["script"], s["tokens"], s["bytes"], s["bytes_per_token"]) for s in scripts]
    chart = draw_bars({s["script"]: s["bytes_per_token"] for s in scripts}, "bytes per token by script")
    header = ("script", "tokens", "bytes", "bytes per token")
    return section("Bytes per token by script", chart, table(header, rows))


def _render_lengths(lengths: dict[str, Any]) -> str:
    classes, context = lengths["classes"], lengths["context_length"]
    if not classes:
        return ""
    rows = [(f"{c['from']:,} to {c['to']:,}", c["documents"], c["cumulated_percent"]) for c in classes]
    boxes = [
        Box(max(c["from"], 1), c["to"] + 1, 0, c["documents"], f"{name} tokens: {c['documents']:,}")
        for c, (name, *_) in zip(classes, rows, strict=True)
    ]
    marks = [(float(context), "context length")] if context else []
    x = Axis.over("tokens in a document", [1, max(2, *(box.right for box in boxes))], log=True)
    y = Axis.over("documents", [box.top for box in boxes], zero=True)
    share = Axis("% of documents no longer than this", 0, 100)
    curve = {"cumulative": [(c["to"] + 1, c["cumulated_percent"]) for c in classes]}
    return section(
        "Document lengths",
        draw_plot(x, y, boxes=boxes, marks=marks),
        draw_plot(x, share, lines=curve, marks=marks),
        paragraph(f"Mean {lengths['mean']:,.1f} tokens, longest {lengths['longest']:,}."),
        table(("tokens", "documents", "cumulative %"), rows),
    )


def _render_packing(packing: dict[str, Any], stored: int) -> str:
    parts = {
        "written once": packing["written"],
        "repeated by overlap": packing["repeated"],
        "padding": packing["padding"],
    }
    parts |= {f"dropped: {reason}": count for reason, count in packing["dropped"].items()}
    words = f"Mode {packing['mode']}"
    if packing["context_length"]:
        words += f", context length {packing['context_length']:,}, overlap {packing['overlap']:,}"
    words += f"; {packing['fill_percent']:.2f} % of the stored tokens are not padding."
    if packing["split_documents"] is not None:
        words += f" {packing['split_documents']:,} documents are in more than one row."
    rows = [*parts.items(), ("stored", stored)]
    return section("Packing", draw_bars(parts, "tokens"), paragraph(words), table(("tokens", "count"), rows))


def _render_vocabulary(vocabulary: dict[str, Any]) -> str:
    curve = [(p["rank"], p["count"]) for p in vocabulary["rank_frequency"]]
    words = f"{vocabulary['used']:,} of {vocabulary['size']:,} ids occur; {vocabulary['unused']:,} never do."
    parts = [paragraph(words)]
    if curve:
        x = Axis.over("rank", [rank for rank, _ in curve], log=True)
        y = Axis.over("occurrences", [count for _, count in curve], log=True)
        parts.insert(0, draw_plot(x, y, lines={"rank-frequency": curve}))
    if vocabulary["unused"]:
        sample = " ".join(map(repr, vocabulary["unused_sample"][:20]))
        parts.append(paragraph(f"Unused, for example: {sample}", soft=True))
    top = [(repr(t["token"]), t["id"], t["count"]) for t in vocabulary["top"]]
    return section("Vocabulary", *parts, table(("token", "id", "count"), top))


def _render_rejects(rejects: dict[str, Any], read: int) -> str:
    if not rejects["by_reason"] and not rejects["replaced"]:
        return section("Rejects", paragraph(f"None: all {read:,} records could be read as they were."))
    rows = [("rejected", reason, count) for reason, count in rejects["by_reason"].items()]
    rows += [("replaced", reason, count) for reason, count in rejects["replaced"].items()]
    places = [(p["reason"], p["place"], p["sample"]) for p in rejects["places"]]
    return section(
        "Rejects",
        table(("what", "reason", "records"), rows, folded=False),
        table(("reason", "place", "begins with"), places),
    )


def _render_units(units: list[dict[str, Any]]) -> str:
    if not units:
        return ""
    longest = sorted(units, key=lambda u: -u["seconds"])[:MOST_UNITS]
    shown = sorted(longest, key=lambda u: (u["start"], u["unit"]))
    height = max(len(shown), 16)
    boxes = []
    for row, unit in enumerate(shown):
        end, top = unit["start"] + unit["seconds"], height - row
        text, style = f"unit {unit['unit']}: {unit['seconds']:.2f} s", "s1" if unit["straggler"] else "s0"
        boxes.append(Box(unit["start"], end, top - 0.8, top, text, style))
    x = Axis.over("seconds", [edge for box in boxes for edge in (box.left, box.right)], zero=True)
    slow = sum(u["straggler"] for u in units)
    words = f"{len(units):,} units; {slow} took more than three times the median"
    words += " (shown in the second colour)." if slow else "."
    rows = [(u["unit"], u["source"] or "", u["start"], u["seconds"], u["tokens"]) for u in shown]
    header = ("unit", "source", "start", "seconds", "tokens")
    chart = draw_plot(x, Axis("", 0, height), boxes=boxes)
    return section("Units", chart, paragraph(words), table(header, rows))


def _render_resources(run: dict[str, Any]) -> str:
    samples = [s for s in run["samples"] if s["rss"] is not None]
    if not samples:
        return ""
    peak, budget = max(s["rss"] for s in samples), run["budget"].get("memory")
    x = Axis.over("seconds", [s["seconds"] for s in samples], zero=True)
    lines = {"resident memory": [(s["seconds"], s["rss"] / 1e6) for s in samples]}
    words = f"Peak {format_number(peak)}B of memory"
    if budget:
        lines["budget"] = [(x.low, budget / 1e6), (x.high, budget / 1e6)]
        words += f" against a budget of {format_number(budget)}B"
    y = Axis.over("MB of memory", [peak / 1e6, (budget or 0) / 1e6], zero=True)
    rows = [(s["seconds"], s["rss"], s["cpu_percent"] or 0.0, s["disk_bytes"] or 0) for s in samples]
    header = ("seconds", "memory", "CPU %", "bytes written")
    chart = draw_plot(x, y, lines=lines)
    return section("Memory, CPU and disk", chart, paragraph(f"{words}."), table(header, rows))


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
