"""Find inputs and read them as blocks of documents."""

from tokenmill.sources.discover import discover
from tokenmill.sources.fields import infer_fields
from tokenmill.sources.model import Block, InputFile, Range, Reject
from tokenmill.sources.read import cut_ranges, read_blocks

__all__ = ["Block", "InputFile", "Range", "Reject", "cut_ranges", "discover", "infer_fields", "read_blocks"]
