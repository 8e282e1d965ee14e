"""Render a card: as tables for a terminal, as CSV, as a page or as parts of a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from typing import Any

from tokenmill.report.page import cards, draw_ranks, format_rows, grid, page, paragraph, section, table

FIGURES = {
    "tokens": "tokens",
    "bytes_per_token": "bytes/token",
    "characters_per_token": "chars/token",
    "tokens_per_word": "tokens/word",
    "renyi_efficiency": "Rényi 2.5",
    "shannon_efficiency": "Shannon",
    "used_share": "in use",
}
SHOWN = 12  # tokens of a list on a page; JSON has all of them
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)


def list_counts(one: dict[str, Any]) -> dict[str, object]:
    """Return the counts of a vocabulary; those of unused, rare and untrained tokens if measured."""
    found: dict[str, object] = {"ids": one["vocab_size"], "added tokens": one["added_tokens"]}
    found |= {"unreachable": len(one["unreachable"]), "parts of characters": len(one["partial"])}
    if "unused" in one:
        found |= {"never used": len(one["unused"]), "used 1 to 9 times": len(one["rare"])}
    if "untrained" in one:
        found["untrained rows"] = len(one["untrained"]["tokens"])
    found["llama.cpp"] = one["llama_cpp"]["name"] or f"unknown ({one['llama_cpp']['hash'][:8]})"
    return found


def list_figures(data: dict[str, Any]) -> list[list[Any]]:
    """Return a row for each corpus and tokenizer: both names, then the figures."""
    return [
        [corpus, one["name"], *(one["corpora"][corpus][key] for key in FIGURES)]
        for corpus in data["corpora"]
        for one in data["tokenizers"]
    ]


def render_text(data: dict[str, Any]) -> str:
    """Return the tables for a terminal."""
    counts = [(one["name"], list_counts(one)) for one in data["tokenizers"]]
    blocks = [
        "Vocabulary\n"
        + format_rows([("", *counts[0][1]), *((name, *found.values()) for name, found in counts)])
    ]
    if data["corpora"]:
        header = ("corpus", "tokenizer", *FIGURES.values())
        blocks.append("Texts\n" + format_rows([header, *list_figures(data)]))
    if parity := _list_parity(data):
        blocks.append("Tokens for the same documents\n" + format_rows(parity))
    scripts = _list_scripts(data["tokenizers"])
    blocks.append("Share of the vocabulary\n" + format_rows(scripts[:9]))
    if data["overlap"]:
        blocks.append("Tokens in common\n" + format_rows(_list_overlap(data)))
    return "\n\n".join(blocks)


def render_csv(data: dict[str, Any]) -> str:
    """Return a row for each corpus and tokenizer, with the counts of its vocabulary."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    counts = {one["name"]: list_counts(one) for one in data["tokenizers"]}
    names = [name.replace(" ", "_") for name in next(iter(counts.values()))]
    writer.writerow(["corpus", "tokenizer", *FIGURES, *names])
    rows = list_figures(data) or [["", name, *("" for _ in FIGURES)] for name in counts]
    writer.writerows([*row, *counts[row[1]].values()] for row in rows)
    return out.getvalue()


def render_page(data: dict[str, Any]) -> bytes:
    """Return one page for all tokenizers, the comparison first."""
    tokenizers, parity = data["tokenizers"], _list_parity(data)
    texts = table(("corpus", "tokenizer", *FIGURES.values()), list_figures(data), bar=3)
    note = "Tokens that each language needs for the documents that all have, as a multiple of the first."
    parts = [section("On texts", texts, wide=True)]
    if parity:
        parts.append(
            section("Parity between languages", table(parity[0], parity[1:]), paragraph(note, soft=True))
        )
    if len(tokenizers) > 1:
        overlap, scripts = _list_overlap(data), _list_scripts(tokenizers)
        parts.append(section("Tokens in common", table(overlap[0], overlap[1:], bar=2)))
        parts.append(section("Vocabulary by script", table(scripts[0], scripts[1:])))
    body = [grid(*parts)]
    for one in tokenizers:
        title = f"<h2 class=part>{escape(one['name'])}</h2>" if len(tokenizers) > 1 else ""
        body += [title, render_parts(one)]
    lead = ", ".join(f"{name}: {size['bytes'] / 1e6:,.1f} MB" for name, size in data["corpora"].items())
    return page("Card of " + ", ".join(one["name"] for one in tokenizers), lead or "without texts", body)


def render_parts(one: dict[str, Any]) -> str:
    """Return the card of one tokenizer: figures, charts and lists."""
    return cards(list_counts(one)) + grid(*render_vocabulary(one))


def render_vocabulary(one: dict[str, Any]) -> list[str]:
    """Return the sections of a vocabulary: charts, then lists of tokens, if measured."""
    total = max(sum(one["scripts"].values()), 1)
    scripts = [(name, count, f"{count / total:.1%}") for name, count in one["scripts"].items()]
    tokens = {name: one.get(name, []) for name in ("unreachable", "frequent", "rare", "longest", "unused")}
    words = "Every token is what its own text encodes to."
    if tokens["unreachable"]:
        count = len(tokens["unreachable"])
        words = (
            f"No text gives {count:,} tokens: their own text is encoded differently, so nothing trains them."
        )
    if inside := len(one["only_inside_text"]):
        words += f" {inside:,} tokens occur only after other text."
    parts = [
        section("Vocabulary by script", table(("script", "tokens", "share"), scripts, bar=1)),
        section("Tokens by length", table(("bytes", "tokens"), bin_lengths(one["lengths"]), bar=1)),
        section("How often tokens occur", draw_ranks(one.get("rank_frequency", ()))),
        section("Unreachable tokens", paragraph(words), _list_tokens(tokens["unreachable"])),
        section("Most frequent tokens", _list_tokens(tokens["frequent"])),
        section("Rare tokens", paragraph(one.get("rare_note", "")), _list_tokens(tokens["rare"])),
        section("Longest tokens", _list_tokens(tokens["longest"])),
        section("Never used", _list_tokens(tokens["unused"])),
    ]
    if untrained := one.get("untrained"):
        words = (
            f"{len(untrained['tokens']):,} of {untrained['rows']:,} rows of {untrained['tensor']} lie near "
            f"the centre of {untrained['reference']:,} rows that no text can train."
        )
        parts.append(section("Untrained rows", paragraph(words), _list_tokens(untrained["tokens"])))
    return parts


def _list_tokens(tokens: Sequence[dict[str, Any]]) -> str:
    """Return a table of the first tokens, with the count or the encoding of each, if known."""
    shown = tokens[:SHOWN]
    columns = {"token": [repr(each["token"]) for each in shown], "id": [each["id"] for each in shown]}
    if shown and "count" in shown[0]:
        columns["count"] = [each["count"] for each in shown]
    if shown and "encodes_to" in shown[0]:
        columns["its text encodes to"] = [_format_ids(each) for each in shown]
    return table(tuple(columns), zip(*columns.values(), strict=True))


def bin_lengths(lengths: Sequence[int]) -> list[tuple[str, int]]:
    """Return the number of tokens per class of lengths; the index of `lengths` is the number of bytes."""
    rows, first = [], 1
    for last in (*LENGTHS, len(lengths) - 1):
        name = str(last) if last == first else f"{first} to {last}"
        rows.append((name, sum(lengths[first : last + 1])))
        first = max(first, last + 1)
    return [row for row in rows if row[1]]


def _format_ids(row: dict[str, Any]) -> str:
    return ", ".join(f"{each['id']} {each['token']!r}" for each in row["encodes_to"])


def _list_parity(data: dict[str, Any]) -> list[list[Any]]:
    found = [(one["name"], one["parity"]) for one in data["tokenizers"] if "parity" in one]
    rows = [[name, each["documents"], *each["ratio"].values(), each["gini"]] for name, each in found]
    return [["tokenizer", "documents", *found[0][1]["ratio"], "Gini"], *rows] if found else []


def _list_scripts(tokenizers: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Return a row for each script: the share of each vocabulary, the largest first."""
    totals = [max(sum(one["scripts"].values()), 1) for one in tokenizers]
    names = {name for one in tokenizers for name in one["scripts"]}
    shares = {
        name: [one["scripts"].get(name, 0) / total for one, total in zip(tokenizers, totals, strict=True)]
        for name in names
    }
    ordered = sorted(shares.items(), key=lambda item: (-max(item[1]), item[0]))
    rows = [[name, *(f"{share:.1%}" for share in values)] for name, values in ordered]
    return [["script", *(one["name"] for one in tokenizers)], *rows]


def _list_overlap(data: dict[str, Any]) -> list[list[Any]]:
    rows = [
        [f"{each['a']}, {each['b']}", each["shared"], each["share_of_a"], each["share_of_b"]]
        for each in data["overlap"]
    ]
    return [["vocabularies", "tokens", "share of the first", "share of the second"], *rows]
