"""Words for what is wrong with an input, and the one error that stops a job under `fail`."""

from __future__ import annotations

from tokenmill.errors import InputError
from tokenmill.sources.model import Reject

WORDS = {
    "invalid_utf8": "bytes that are not UTF-8",
    "lone_surrogate": "a lone surrogate, which is not a character",
    "broken_json": "broken JSON",
    "not_an_object": "a record that is not an object",
    "missing_field": "a record without the text field",
    "not_a_string": "a text field that is not a string",
    "too_deep": "JSON nested more than 990 levels deep",
    "over_long": "a record longer than max_record_bytes",
    "bad_messages": "a record whose messages cannot be read",
    "bad_role": "a message whose role is not a word",
    "bad_content": "a message whose content is neither text nor parts of text",
    "template_refuses": "a conversation that its chat template refuses",
    "template_limit": "a chat template that does not end",
    "role_left_out": "a message that its chat template leaves out",
    "special_string": "the string of a special token where it is not text",
    "unproved_mask": "a conversation whose loss mask cannot be proved",
    "field_count": "a row with more or fewer fields than the header",
    "broken_quote": "a quoted field that does not end",
    "truncated": "a file that ends too early",
    "damaged": "a file that cannot be decoded further",
    "bomb": "a file that expands more than max_expansion times",
    "unreadable": "a file that cannot be read",
    "wrong_extension": "a file that is not what its name says",
}
# Reasons whose detail is a sentence and not a piece of the record.
CHAT_REASONS = frozenset(
    {
        *("bad_messages", "bad_role", "bad_content", "template_refuses", "template_limit", "role_left_out"),
        *("special_string", "unproved_mask"),
    }
)


class FileFaultError(InputError):
    """A fault of a whole file, found while it was read: what was read before it stays good."""

    def __init__(self, reason: str, place: str, detail: str) -> None:
        super().__init__(
            f"{place}: {WORDS[reason]}: {detail}. Replace the file, or set on_error to 'skip' to keep "
            "what could be read and count the rest"
        )
        self.reject = Reject(reason, place, detail)


class ChangedInputError(InputError):
    """An input is not the file that was planned; no policy can make its units right."""


def explain_refusal(reject: Reject) -> InputError:
    """The error for a bad record when the policy is `fail`."""
    words = WORDS.get(reject.reason, reject.reason)
    if reject.reason in CHAT_REASONS:
        return InputError(
            f"{reject.place}: {words}: {reject.sample}. Fix the record, or set on_error to 'skip' "
            "(leave such records out, counted)"
        )
    return InputError(
        f"{reject.place}: {words}: {reject.sample!r}. Fix the record, or set on_error to 'skip' "
        "(leave such records out, counted) or 'replace' (put U+FFFD where text is not Unicode)"
    )
