"""One range of one input to blocks of documents, under the user's policy for bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.sources.faults import FileFaultError, explain_refusal
from tokenmill.sources.fields import Request, make_fields
from tokenmill.sources.formats import find_input_format
from tokenmill.sources.model import Block
from tokenmill.sources.raw import require_unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenmill.settings.schema import SourceConfig
    from tokenmill.sources.model import InputFile, Range

DEFAULT_BLOCK_BYTES = 4 << 20


def read_blocks(
    file: InputFile,
    part: Range,
    config: SourceConfig,
    *,
    block_bytes: int = DEFAULT_BLOCK_BYTES,
    columns: Sequence[str] = (),
    parts: bool = False,
) -> Iterator[Block]:
    """Blocks of about `block_bytes` of text, in file order.

    `columns` are delivered beside the text for a predicate. With `parts`, a text file that is one document
    may come in several blocks, of which all but the last say that it goes on.

    Under `fail` the first bad record or a fault of the file raises `InputError`; otherwise both are counted,
    and what was read before a fault stays. A fault of the machine raises
    `InputUnavailableError` and an input that is not the one that was planned, before or after it was read,
    `ChangedInputError`, whatever the policy.
    """
    blocks = find_input_format(file).read(
        Request(file, part, config, make_fields(config, columns), block_bytes, parts)
    )
    try:
        with require_unchanged(file):
            for block in blocks:
                if block.rejects and config.on_error == "fail":
                    raise explain_refusal(block.rejects[0])
                yield block
                del block
    except FileFaultError as fault:
        if config.on_error == "fail":
            raise
        yield Block(rejects=(fault.reject,), refused={fault.reject.reason: 1})
