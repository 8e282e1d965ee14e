"""The `tokenizer.json` that a recipe came from: its small parts at hand, its large ones still text.

Parsing the vocabulary and the merges into Python objects takes longer than all else that loading does, and
only saving and the `fast` strategy want them.
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


class HfText:
    """`outline` is the object without what `model.vocab` and `model.merges` hold, if `text` has them."""

    __slots__ = ("_changed", "outline", "text")

    outline: Json
    text: bytes | None
    _changed: bool

    def __init__(self, outline: Json, text: bytes | None = None, *, changed: bool = False) -> None:
        self.outline = outline
        self.text = text
        self._changed = changed

    @property
    def model(self) -> Json:
        """The options of the model."""
        body = self.outline.get("model")
        return body if isinstance(body, dict) else {}

    def with_added(self, added: list[Any]) -> HfText:
        """The same with other added tokens."""
        return HfText({**self.outline, "added_tokens": added}, self.text, changed=True)

    def spell_out(self) -> str:
        """The whole as text; the file's own where nothing was changed, since writing it takes long."""
        if self.text is not None and not self._changed:
            return self.text.decode()
        return json.dumps(self.to_json(), ensure_ascii=False)

    def to_json(self) -> Json:
        """The whole object, as Hugging Face reads it."""
        if self.text is None:
            return self.outline
        whole: Json = json.loads(self.text)
        return {**whole, "added_tokens": self.outline["added_tokens"]} if self._changed else whole

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HfText) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]
