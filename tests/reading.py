"""Read a whole input through the sources, in ranges and blocks of any size."""

from collections import Counter
from dataclasses import dataclass, field

from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, infer_fields, read_blocks


@dataclass
class Found:
    texts: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    ids: list = field(default_factory=list)
    rejects: list = field(default_factory=list)
    refused: Counter = field(default_factory=Counter)
    replaced: Counter = field(default_factory=Counter)
    rows_read: int = 0
    parts: int = 0


def read_all(*inputs, unit_bytes=1 << 30, block_bytes=1 << 20, files=None, columns=(), **options):
    """Every document of the inputs; rows are numbered through each file."""
    config = SourceConfig(inputs=tuple(map(str, inputs)), **options)
    files = discover(config) if files is None else files
    config, _ = infer_fields(config, files)
    found = Found()
    for file in files:
        first = 0
        for part in cut_ranges(file, unit_bytes):
            found.parts += 1
            passed = 0
            for block in read_blocks(file, part, config, block_bytes=block_bytes, columns=columns):
                assert len(block.texts) == len(block.rows)
                block.texts.to_arrow().validate(full=True)
                found.texts += block.texts.to_pylist()
                found.rows += [row + first for row in block.rows]
                found.ids += block.ids.to_pylist() if block.ids is not None else []
                found.rejects += block.rejects
                found.refused.update(block.refused)
                found.replaced.update(block.replaced)
                passed += block.rows_read
            first += passed
            found.rows_read += passed
    return found
