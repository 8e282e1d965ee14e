"""Texts that UTF-8 can hold."""

from __future__ import annotations

from tokenmill.errors import InputError


def check_text(doc: str | bytes, place: int) -> str:
    """A document as a str that UTF-8 can hold, or an error that says where it cannot."""
    if isinstance(doc, bytes):
        try:
            return doc.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"document {place}: invalid UTF-8 at byte {error.start}; decode it first"
            ) from error
    if not isinstance(doc, str):
        raise TypeError(f"document {place}: expected str or bytes, found {type(doc).__name__}")
    try:
        doc.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"document {place}: the text holds a lone surrogate at character {error.start}, which UTF-8 "
            "cannot hold; replace it first"
        ) from error
    return doc
