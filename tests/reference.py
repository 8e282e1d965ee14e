"""The oracle: a trainer that recounts every pair at each step and a naive encoder, short enough to trust."""

from collections import Counter
from itertools import pairwise

import regex

GPT2 = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def byte_ids():
    """Hugging Face's order of the single bytes: those that print as themselves first."""
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    order = [*printing, *(byte for byte in range(256) if byte not in printing)]
    return {bytes([byte]): place for place, byte in enumerate(order)}


def pieces_of(texts, special_tokens=(), pattern=GPT2):
    """Counts of the pieces; a special token ends a piece and is not counted itself."""
    counts = Counter()
    for text in texts:
        parts = [text]
        if special_tokens:
            longest_first = sorted(special_tokens, key=len, reverse=True)
            parts = regex.split("|".join(map(regex.escape, longest_first)), text)
        for part in parts:
            counts.update(match.group().encode() for match in pattern.finditer(part))
    return counts


def join(word, pair):
    """Replace every occurrence of `pair` in `word`, from the left."""
    joined, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            joined.append(pair[0] + pair[1])
            at += 2
        else:
            joined.append(word[at])
            at += 1
    return joined


def train(pieces, vocab_size, tie_break="huggingface", min_frequency=0, max_token_length=None):
    """The merges, as pairs of byte strings. The same bytes made by two pairs are one token."""
    words = [([bytes([byte]) for byte in piece], count) for piece, count in pieces.items()]
    return go_on(words, byte_ids(), vocab_size, tie_break, min_frequency, max_token_length)


def go_on(
    words,
    ids,
    vocab_size,
    tie_break="huggingface",
    min_frequency=0,
    max_token_length=None,
    allows=lambda _pair: True,
):
    """Train on from words of tokens that have `ids` already; a pair that `allows` refuses never merges."""
    ids, merges = dict(ids), []
    while len(ids) < vocab_size:
        counts = Counter()
        for word, count in words:
            for pair in pairwise(word):
                short = max_token_length is None or len(pair[0]) + len(pair[1]) <= max_token_length
                if short and allows(pair):
                    counts[pair] += count
        if not counts or max(counts.values()) < max(1, min_frequency):
            break
        if tie_break == "first-seen":  # words and their pairs stand in the order of the texts
            best = max(counts, key=counts.__getitem__)
        elif tie_break == "lexicographic":
            best = max(counts, key=lambda pair: (counts[pair], pair))
        else:
            best = max(counts, key=lambda pair: (counts[pair], -ids[pair[0]], -ids[pair[1]]))
        words = [(join(word, best), count) for word, count in words]
        ids.setdefault(best[0] + best[1], len(ids))
        if best not in merges:
            merges.append(best)
    return merges


def encode(text, merges, pattern=GPT2):
    """The tokens of a text: in each piece, the earliest merge goes first, from the left."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    tokens = []
    for match in pattern.finditer(text):
        word = [bytes([byte]) for byte in match.group().encode()]
        while known := [pair for pair in pairwise(word) if pair in ranks]:
            word = join(word, min(known, key=ranks.__getitem__))
        tokens += word
    return tokens
