"""Bytes of any supported file to blocks of documents."""

from tokenmill.sources.discover import discover
from tokenmill.sources.model import Block, InputFile, Range, Reject
from tokenmill.sources.ranges import cut_ranges
from tokenmill.sources.read import read_blocks
from tokenmill.sources.settle import settle

__all__ = ["Block", "InputFile", "Range", "Reject", "cut_ranges", "discover", "read_blocks", "settle"]
