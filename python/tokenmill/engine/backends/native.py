"""The native engine: which recipes the core provably supports, and what it is given for them.

Nothing here approximates. A step that the core does not do exactly as Hugging Face does raises
`UnsupportedError` with the reason, and the tokenizer then runs on HF `tokenizers` (strategy `fast`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill._core import Codec, Tokens, encode_part, last_cut, spell
from tokenmill.engine import arrow
from tokenmill.engine.backends.native_steps import UnsupportedError, normalizer_steps, scan_steps, template_of
from tokenmill.engine.backends.text import check_text
from tokenmill.engine.files.hf_json import walk
from tokenmill.engine.stream import encode_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from tokenmill.base.texts import Texts
    from tokenmill.engine.backends.backend import Special
    from tokenmill.engine.recipe import Model, Recipe

MARKER = "▁"


class NativeEngine:
    """The core's codec as an `Engine`."""

    frames = takes_parts = imitates = True
    in_processes = False

    def __init__(self, recipe: Recipe) -> None:
        self.codec = Codec(**parts_of(recipe))
        self.id_limit: int = self.codec.id_limit
        self.family: str = self.codec.family
        self._specials = frozenset(token.id for token in recipe.added if token.special)
        self._words = words_of(recipe)
        self._drops_space = _drops_space(recipe)

    def encode(self, text: str | bytes, special: Special, *, template: bool) -> list[int]:
        """The ids of one text."""
        return self.codec.encode(text, special, template)

    def encode_batch(
        self, docs: Any, special: Special, *, template: bool, threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of many texts, flat, with offsets."""
        if arrow.is_flat(docs):
            return self.codec.encode_chunks(arrow.chunks_of(docs), special, template, threads)
        docs = docs if isinstance(docs, list) else list(docs)
        return self.codec.encode_list(docs, special, template, threads)

    def encode_lists(
        self, docs: list[str | bytes], special: Special, *, template: bool, threads: int
    ) -> list[list[int]]:
        """The ids of many texts, one list for each."""
        return self.codec.encode_lists(docs, special, template, threads)

    def encode_framed(
        self, texts: Texts, frame: tuple[int | None, int | None], special: Special, *, threads: int
    ) -> tuple[memoryview, memoryview]:
        """The ids of flat texts, each between the ids of `frame`, with offsets."""
        return self.codec.encode_framed(texts.offsets, texts.data, special, frame, threads)

    def count_batch(self, docs: Any, special: Special, *, template: bool, threads: int) -> NDArray[np.int64]:
        """How many ids each text has."""
        if arrow.is_flat(docs):
            import numpy as np

            return np.diff(self.encode_batch(docs, special, template=template, threads=threads)[1])
        return self.codec.count_list(list(docs), special, template, threads)

    def offsets(
        self, text: str, special: Special, *, template: bool
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids and their places; what the template adds has the empty place at its end of the text."""
        ids, starts, ends = self.codec.offsets(check_text(text, 0), special)
        places = list(zip(starts, ends, strict=True))
        if template:
            around = self.codec.encode("", special, template=True)
            before = around[: self.codec.template_split]
            after = around[self.codec.template_split :]
            ids = [*before, *ids, *after]
            places = [(0, 0)] * len(before) + places + [(len(text), len(text))] * len(after)
        return ids, places

    def encode_stream(self, texts: Iterable[str], special: Special) -> Iterator[int]:
        """The ids of the parts together, in bounded memory where cuts are proven."""
        return encode_stream(self.codec, texts, special)

    def last_cut(self, data: memoryview) -> int:
        """The last byte at which a text that begins with `data` can be cut; 0 if nowhere."""
        return last_cut(self.codec, data)

    def encode_part(self, data: memoryview, special: Special, *, continued: bool) -> NDArray[Any]:
        """The ids of a part of a text in UTF-8."""
        return encode_part(self.codec, data, special, continued)

    def piece_ends(self, text: str, special: Special) -> list[int]:
        """Where pieces end, in bytes of the normalized text."""
        return self.codec.piece_ends(text, special)

    def decode(self, ids: Sequence[int] | NDArray[Any], *, skip_special: bool) -> bytes:
        """The bytes of the ids."""
        if skip_special:
            ids = [token_id for token_id in ids if token_id not in self._specials]
        if self._words is None:
            return self.codec.decode(ids)
        self.codec.decode(ids)  # refuses ids that nothing has
        return b"".join(self._words.get(int(token_id), b"") for token_id in ids)

    def decode_text(self, ids: Sequence[int] | NDArray[Any], errors: str, *, skip_special: bool) -> str:
        """The text of the ids, without the space that a SentencePiece-style encoder put first."""
        data = self.decode(ids, skip_special=skip_special)
        if self._drops_space and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", errors)

    def decode_texts(self, ids: NDArray[Any], offsets: NDArray[np.int64], errors: str) -> list[str] | None:
        """One text for each document, where its bytes are those of its tokens, one after the other."""
        if self._words is not None or self._drops_space:
            return None
        return self.codec.decode_batch(ids, offsets, errors)

    def token_bytes(self, token_id: int) -> bytes | None:
        """What one id spells."""
        return self.codec.token_bytes(token_id) if self._words is None else self._words.get(token_id)

    def id_of(self, token: bytes) -> int | None:
        """The id of a token's bytes."""
        if self._words is None:
            return self.codec.id_of(token)
        return next((token_id for token_id, word in self._words.items() if word == token), None)


def _drops_space(recipe: Recipe) -> bool:
    """Whether the decoder takes a space off the beginning of a text."""
    for step in walk(recipe.decoder):
        kind = step.get("type")
        if kind == "Strip" and step.get("content") == " " and step.get("start"):
            return True
        if kind == "Metaspace" and step.get("prepend_scheme", "always") != "never":
            return True
    return False


def words_of(recipe: Recipe) -> dict[int, bytes] | None:
    """What each id spells, where the core holds the model in the printable spelling of bytes."""
    model = recipe.model
    if model is None or model.kind != "bytes":
        return None
    suffix = model.end_of_word_suffix.encode()
    if not suffix and not scan_steps(recipe.pre_tokenizer)[1]:
        return None
    words = {i: token for i, token in enumerate(model.tokens) if token is not None}
    if suffix:
        ended = {i: word.removesuffix(suffix) + b" " for i, word in words.items() if word.endswith(suffix)}
        words |= ended
    return words | dict(model.unreachable) | {token.id: token.content.encode() for token in recipe.added}


def parts_of(recipe: Recipe) -> dict[str, Any]:
    """The keyword arguments of `_core.Codec`, or `UnsupportedError` with the reason."""
    try:
        return _parts(recipe)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        # A step whose fields have the wrong types; HF then says what it thinks of the file.
        raise UnsupportedError(f"a step that cannot be read ({error})") from error


def _parts(recipe: Recipe) -> dict[str, Any]:
    model = recipe.model
    if model is None:
        kind = recipe.hf.model.get("type", "unknown") if recipe.hf else "unknown"
        raise UnsupportedError(f"the model is {kind}, not BPE")
    _refuse_model_options(recipe)
    template = template_of(recipe.post_processor)
    added = sorted(recipe.added, key=lambda token: (not token.special, token.id))
    parts: dict[str, Any] = {
        "ranked": _ranked(model),
        "ignore_merges": model.ignore_merges,
        "unk": model.unk_id,
        "fuse_unk": model.fuse_unk,
        "added": [
            (t.content, t.id, t.special, t.lstrip, t.rstrip, t.single_word, t.normalized) for t in added
        ],
        "template": template,
    }
    parts |= _bytes_parts(recipe, model) if model.kind == "bytes" else _chars_parts(recipe, model)
    # What the file's reader knows of the merges holds for the tokens as that reader made them, not rewritten.
    as_read = isinstance(parts["tokens"], Tokens)
    parts["merges"] = model.merges if as_read or model.merges is None else list(model.merges)
    extra = dict(model.unreachable)
    extra.update({token.id: token.content.encode() for token in recipe.added})
    extra.update({token_id: data for data, token_id in parts.pop("byte_extra", ())})
    parts["extra"] = _without(parts["tokens"], extra)
    return parts


def _ranked(model: Model) -> list[int] | None:
    """Ids by rank; None says that tokens rank by their ids, which the core can see for itself."""
    in_order = model.rank_order == range(len(model.tokens))
    return None if in_order else list(model.rank_order)


def _without(tokens: Tokens | list[tuple[bytes, int]], extra: dict[int, bytes]) -> list[tuple[bytes, int]]:
    """The extra tokens whose ids no token has."""
    if isinstance(tokens, Tokens):
        taken = {i for i in extra if i < len(tokens) and tokens[i] is not None}
    else:
        taken = {i for _, i in tokens}
    return [(data, i) for i, data in extra.items() if i not in taken]


def _refuse_model_options(recipe: Recipe) -> None:
    if recipe.hf and recipe.hf.outline.get("version") == "2.0":
        raise UnsupportedError("a tokenizer.json of version 2.0, whose steps have other meanings")
    body = recipe.hf.model if recipe.hf else {}
    if body.get("dropout"):
        raise UnsupportedError(f"BPE dropout is {body['dropout']}: ids are random")
    if body.get("continuing_subword_prefix"):
        raise UnsupportedError("the model has a continuing_subword_prefix")
    if body.get("end_of_word_suffix") and body.get("ignore_merges"):
        raise UnsupportedError("ignore_merges with an end_of_word_suffix")
    if any(token.rstrip for token in recipe.added) and any(
        token.lstrip and token.content[0].isspace() for token in recipe.added
    ):
        raise UnsupportedError("an added token of white space with lstrip, beside one with rstrip")


def _bytes_parts(recipe: Recipe, model: Model) -> dict[str, Any]:
    steps, after, prefix = scan_steps(recipe.pre_tokenizer)
    spelled = bool(after or model.end_of_word_suffix)
    tokens: Tokens | list[tuple[bytes, int]] = model.tokens
    if spelled:
        pairs = [(token, i) for i, token in enumerate(model.tokens) if token is not None]
        tokens = [(_spelling(token, model.end_of_word_suffix), i) for token, i in pairs]
    return {
        "chars": spelled,
        "spelled": spelled,
        "suffix": bool(model.end_of_word_suffix),
        "after": after,
        "byte_tokens": None,
        "tokens": tokens,
        "normalizer": normalizer_steps(list(walk(recipe.normalizer))),
        "prefix": prefix,
        "steps": steps,
    }


def _spelling(token: bytes, suffix: str) -> bytes:
    """A token in printable characters; the last one of a word with a suffix is kept in a private plane."""
    spelled = spell(token)
    if suffix and spelled.endswith(suffix) and len(spelled) > len(suffix):
        word = spelled.removesuffix(suffix)
        spelled = word[:-1] + chr(0xF0000 + ord(word[-1]))
    return spelled.encode()


def _chars_parts(recipe: Recipe, model: Model) -> dict[str, Any]:
    if model.ignore_merges:
        raise UnsupportedError("ignore_merges on a character-level model")
    normalizers, splits, prefix = _marker_steps(recipe)
    byte_ids = _byte_tokens(model) if model.byte_fallback else None
    skip = {i for i in byte_ids or () if len(model.tokens[i] or b"") > 1}
    tokens = [
        (token.replace(MARKER.encode(), b" "), i)
        for i, token in enumerate(model.tokens)
        if token is not None and i not in skip and b" " not in token
    ]
    spaced = [(token, i) for i, token in enumerate(model.tokens) if token is not None and b" " in token]
    bytes_back = [(bytes([byte]), i) for byte, i in enumerate(byte_ids or ())]
    return {
        "chars": True,
        "byte_tokens": byte_ids,
        "tokens": tokens,
        "after": [],
        "spelled": False,
        "suffix": False,
        "byte_extra": [*spaced, *bytes_back],
        "normalizer": normalizer_steps(normalizers),
        "prefix": prefix,
        "steps": [("words" if splits else "whole", "", "", False)],
    }


def _marker_steps(recipe: Recipe) -> tuple[list[dict[str, Any]], bool, str]:
    """The normalizer without its `▁` steps, whether words are split, and the prefix rule.

    The core keeps the marker as a space, so `Replace(" ", "▁")` at the end of a normalizer costs nothing.
    """
    normalizers = list(walk(recipe.normalizer))
    pre_tokenizers = list(walk(recipe.pre_tokenizer))
    to_marker = {"type": "Replace", "pattern": {"String": " "}, "content": MARKER}
    prepend = {"type": "Prepend", "prepend": MARKER}
    first = {**prepend, "scheme": "first"}
    splits, prefix, marked = False, "never", False
    late = any(token.normalized for token in recipe.added)
    if normalizers and normalizers[-1] == to_marker:
        marked = True
        if not late:
            normalizers.pop()
            if normalizers and normalizers[-1] in (prepend, first):
                prefix = "unconditional" if normalizers.pop() == prepend else "unconditional_at_start"
    for step in pre_tokenizers:
        if step.get("type") == "Metaspace" and step.get("replacement", MARKER) == MARKER and not marked:
            splits, prefix = _metaspace(step)
            marked = True
            if prefix == "missing_at_start" and normalizers:
                # HF asks where the first character came from, and a normalizer may have changed it.
                raise UnsupportedError("Metaspace with prepend_scheme 'first' after a normalizer")
        elif not (marked and step.get("type") == "Split" and step.get("pattern") == {"String": " "}):
            # After the normalizer no space is left, so a split at spaces (Gemma) does nothing.
            raise UnsupportedError(f"the pre-tokenizer {step.get('type')} on a character-level model")
    if not marked:
        raise UnsupportedError("a character-level model that does not write spaces as ▁")
    return normalizers, splits, prefix


def _metaspace(step: dict[str, Any]) -> tuple[bool, str]:
    scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
    rules = {"always": "missing", "first": "missing_at_start", "never": "never"}
    if scheme not in rules:
        raise UnsupportedError(f"Metaspace with prepend_scheme {scheme!r}")
    return bool(step.get("split", True)), rules[scheme]


def _byte_tokens(model: Model) -> list[int]:
    """The token of each byte; Gemma has none for the tab, which is a token itself and never falls back."""
    places = {token: i for i, token in enumerate(model.tokens) if token is not None}
    plain = {byte: places.get(bytes([byte])) for byte in range(128)}
    ids = [places.get(f"<0x{byte:02X}>".encode(), plain.get(byte)) for byte in range(256)]
    if any(token_id is None for token_id in ids):
        missing = ids.index(None)
        raise UnsupportedError(f"byte_fallback without the token <0x{missing:02X}>")
    return [token_id for token_id in ids if token_id is not None]
