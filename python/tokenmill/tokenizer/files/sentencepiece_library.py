"""SentencePiece models that only the library itself runs exactly: Unigram, and those with a normalizer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenmill.errors import TokenizerError, explain_missing
from tokenmill.tokenizer.recipe import AddedToken, Recipe

if TYPE_CHECKING:
    from collections.abc import Sequence


class LibraryModel:
    """A `.model` file in the library, as an object that is asked from Python; picklable."""

    is_fast = False

    def __init__(self, data: bytes, source: str) -> None:
        self.identity = data
        self._source = source
        self.vocab_size = len(self._processor)

    def __reduce__(self) -> tuple[type[LibraryModel], tuple[bytes, str]]:
        return type(self), (self.identity, self._source)

    @cached_property
    def _processor(self) -> Any:
        with explain_missing("sentencepiece", "sentencepiece", f"{self._source}: this model"):
            import sentencepiece
        try:
            return sentencepiece.SentencePieceProcessor(model_proto=self.identity)
        except Exception as error:
            raise TokenizerError(f"{self._source}: SentencePiece cannot load it: {error}") from error

    def encode(self, text: str) -> list[int]:
        """The ids of one text; strings of control pieces are text."""
        return list(self._processor.encode(text))

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The library's text; control pieces have none, whether they are skipped or not."""
        del skip_special_tokens
        return str(self._processor.decode(list(ids)))

    def get_vocab(self) -> dict[str, int]:
        """Each piece and its id."""
        return {self._processor.id_to_piece(i): i for i in range(self.vocab_size)}

    def convert_ids_to_tokens(self, token_id: int) -> str | None:
        """The piece of one id."""
        return self._processor.id_to_piece(token_id) if 0 <= token_id < self.vocab_size else None

    @property
    def control_pieces(self) -> dict[str, int]:
        """The pieces that no text becomes, such as BOS."""
        return {piece: i for piece, i in self.get_vocab().items() if self._processor.is_control(i)}


def load_by_library(data: bytes, source: str, reason: str) -> Recipe:
    """Return the recipe of a model that the library runs."""
    model = LibraryModel(data, source)
    added = tuple(AddedToken(piece, i) for piece, i in model.control_pieces.items())
    return Recipe(source, "sentencepiece", None, added, python=model, reason=reason)
