"""HF's steps around the model, in the form in which the core takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tokenmill.engine.files.hf_json import walk

if TYPE_CHECKING:
    from tokenmill.engine.recipe import Json

ScanStep = tuple[str, str, str, bool]
NormalStep = tuple[str, str, str]

_PLAIN = {
    "NFC": "nfc",
    "NFD": "nfd",
    "NFKC": "nfkc",
    "NFKD": "nfkd",
    "Lowercase": "lowercase",
    "StripAccents": "strip_accents",
}
# Patterns that mean the same in Oniguruma and in the core's engine; any other goes to HF itself.
_SAME_EVERYWHERE = {r"\s+", " {2,}", " +", r"\n+", r"\r\n"}
# Oniguruma counts the two joiners as no word characters and, outside a class, six Latin-1 numbers as such.
_WORDS = {
    r"\w": r"[[\w\x{B2}\x{B3}\x{B9}\x{BC}\x{BD}\x{BE}]--[\x{200C}\x{200D}]]",
    r"\W": r"[^[\w\x{B2}\x{B3}\x{B9}\x{BC}\x{BD}\x{BE}]--[\x{200C}\x{200D}]]",
}
_WORDS_IN_CLASS = {r"\w": r"[\w--[\x{200C}\x{200D}]]", r"\W": r"[^\w--[\x{200C}\x{200D}]]"}
# The contractions that published patterns have; folding of other letters differs (`(?i:ss)` is also ß to HF).
_FOLDED = r"\(\?i:(?:'s\|'t\|'re\|'ve\|'m\|'ll\|'d|\[sdmt\]\|ll\|ve\|re)\)"
_PARTS = re.compile(
    rf"{_FOLDED}|\(\?(?:[:=!>]|<[=!])|\(\?|\\[pP]\{{[^}}]*\}}|\\u....|\\x..|\\.|\[\^?|\]|[^\\\[\](]+|\(|\\",
    re.DOTALL,
)
# Properties that both engines give to the same of all scalar values.
_PROPERTIES = (
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Cn Co "
    "Han Hangul Hiragana Katakana Latin Cyrillic Greek Arabic Hebrew Thai Devanagari Bengali Tamil Armenian "
    "Georgian Emoji Letter Number Punctuation Symbol Alphabetic Uppercase Lowercase White_Space"
)
_SAME = re.compile(
    rf"{_FOLDED}|\(\?(?:[:=!>]|<[=!])|\\[pP]\{{(?:{_PROPERTIES.replace(' ', '|')})\}}"
    r"|\\u[0-9A-Fa-f]{4}|\\x[0-7][0-9A-Fa-f]|\\[sSdDwWrnt]|\\[^\w]|\(|[^\\(]*",
    re.DOTALL,
)
_BEHAVIORS = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}


class UnsupportedError(Exception):
    """The core cannot prove that it does this exactly; the message is the reason that `strategy` gives."""


def normalizer_steps(leaves: list[Json]) -> list[NormalStep]:
    """`[{"type": "NFC"}]` -> `[("nfc", "", "")]`."""
    return [_normalizer(step) for step in leaves]


def _normalizer(step: Json) -> NormalStep:
    kind = step.get("type")
    if kind in _PLAIN:
        return _PLAIN[kind], "", ""
    if kind == "Strip":
        left = "left" if step.get("strip_left", True) else ""
        return "strip", left, "right" if step.get("strip_right", True) else ""
    if kind == "Prepend" and isinstance(step.get("prepend"), str) and "scheme" not in step:
        return "prepend", step["prepend"], ""
    if kind == "Replace" and isinstance(step.get("content"), str):
        pattern = step.get("pattern") or {}
        if pattern.get("String"):
            return "replace", pattern["String"], step["content"]
        if pattern.get("Regex") in _SAME_EVERYWHERE:
            return "replace_regex", pattern["Regex"], step["content"]
    raise UnsupportedError(f"the normalizer {kind}")


def scan_steps(pre_tokenizer: Json | None) -> tuple[list[ScanStep], list[ScanStep], str]:
    """The steps before and after the one `ByteLevel`, and the prefix rule (`never` or `missing`)."""
    leaves = list(walk(pre_tokenizer))
    at = [place for place, leaf in enumerate(leaves) if leaf.get("type") == "ByteLevel"]
    if len(at) != 1:
        raise UnsupportedError(f"a pre-tokenizer with {len(at)} ByteLevel steps")
    splits, last = leaves[: at[0]], leaves[at[0]]
    after = [_scan_step(step) for step in leaves[at[0] + 1 :]]
    if len(splits) == 1 and splits[0].get("dialect") == "rust":
        return [("pattern", splits[0]["pattern"]["Regex"], "", False)], after, "never"
    steps = [_scan_step(step) for step in splits]
    if last.get("use_regex", True):
        steps.append(("byte_level", "", "", False))
    prefix = last.get("add_prefix_space", True)
    if prefix and splits:
        raise UnsupportedError("add_prefix_space after another split")
    return steps, after, "missing" if prefix else "never"


def _scan_step(step: Json) -> ScanStep:
    kind = step.get("type")
    if kind == "Split":
        return _split(step)
    if kind == "Digits":
        return "digits", "", "", bool(step.get("individual_digits", False))
    if kind == "Punctuation":
        return "punctuation", "", step.get("behavior", "Isolated"), False
    if kind in {"Whitespace", "WhitespaceSplit"}:
        return "whitespace" if kind == "Whitespace" else "whitespace_split", "", "", False
    raise UnsupportedError(f"the pre-tokenizer {kind} before ByteLevel")


def _split(step: Json) -> ScanStep:
    pattern, behavior = step.get("pattern"), step.get("behavior")
    if not isinstance(behavior, str) or behavior not in _BEHAVIORS or not isinstance(pattern, dict):
        raise UnsupportedError(f"a Split with the behavior {behavior!r}")
    invert = bool(step.get("invert", False))
    if isinstance(pattern.get("Regex"), str):
        return "split", in_core_words(pattern["Regex"]), behavior, invert
    if isinstance(pattern.get("String"), str):
        return "literal", pattern["String"], behavior, invert
    raise UnsupportedError("a Split without a pattern")


def in_core_words(pattern: str) -> str:
    r"""An Oniguruma pattern with its `\w` spelled so that the core's engine matches the same characters."""
    if "[[:" in pattern:
        raise UnsupportedError("a Split pattern with POSIX brackets")
    depth, out = 0, []
    for part in _PARTS.findall(pattern):
        if not _SAME.fullmatch(part) and not (depth and part == "(?"):
            raise UnsupportedError(f"a Split pattern with {part}, which engines read differently")
        depth += 1 if part[0] == "[" else -1 if part == "]" and depth else 0
        out.append((_WORDS_IN_CLASS if depth else _WORDS).get(part, part))
    return "".join(out)


def template_of(post_processor: Json | None) -> tuple[list[int], list[int]]:
    """The ids that go before and after one text: `([0], [2])` for RoBERTa."""
    before: list[int] = []
    after: list[int] = []
    for step in walk(post_processor):
        first, last = _around(step)
        before, after = first + before, after + last
    return before, after


def _around(step: Json) -> tuple[list[int], list[int]]:
    kind = step.get("type")
    if kind == "ByteLevel":
        return [], []
    if kind in {"RobertaProcessing", "BertProcessing"}:
        return [_named_id(step, "cls")], [_named_id(step, "sep")]
    if kind != "TemplateProcessing":
        raise UnsupportedError(f"the post-processor {kind}")
    items: list[Any] = step.get("single") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnsupportedError("a template that is no list of objects")
    at = [place for place, item in enumerate(items) if "Sequence" in item]
    if len(at) != 1:
        raise UnsupportedError(f"a template with {len(at)} sequences")
    return _ids(items[: at[0]], step), _ids(items[at[0] + 1 :], step)


def _named_id(step: Json, key: str) -> int:
    pair = step.get(key)
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], int) or pair[1] < 0:
        raise UnsupportedError(f"a {step.get('type')} whose {key!r} is {pair!r}")
    return pair[1]


def _ids(items: list[Any], step: Json) -> list[int]:
    named = step.get("special_tokens") or {}
    try:
        return [int(i) for item in items for i in named[item["SpecialToken"]["id"]]["ids"]]
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedError(f"a template that names an unknown special token ({error})") from error
