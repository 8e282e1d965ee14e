"""A fault of the machine is never a bad record, and an input that changes while it is read never counts."""

import contextlib
import errno
import io
import os
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from corpus import COMPRESS, TEXTS, jsonl, write_format
from tokenmill.errors import InputError, InputUnavailableError
from tokenmill.settings.schema import SourceConfig
from tokenmill.sources import cut_ranges, discover, raw, read_blocks


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(raw, "PAUSES", (0.0, 0.0))


class FaultyFile(io.BytesIO):
    def read(self, size=-1):
        FaultySystem.meet()
        return super().read(size)

    def readinto(self, buffer):
        FaultySystem.meet()
        return super().readinto(buffer)


class FaultySystem(MemoryFileSystem):
    """A store whose reads fail from a certain one on, some times or for ever."""

    protocol = "faulty"
    store: ClassVar = {}
    pseudo_dirs: ClassVar = [""]
    left = 0
    failures = 0
    code = errno.EIO

    @classmethod
    def arm(cls, after, failures, code=errno.EIO):
        cls.left, cls.failures, cls.code = after, failures, code

    @classmethod
    def meet(cls):
        cls.left -= 1
        if cls.left < 0 and cls.failures > 0:
            cls.failures -= 1
            raise OSError(cls.code, os.strerror(cls.code))

    def info(self, path, **options):
        return super().info(path, **options) | {"created": "then"}

    def open(self, path, mode="rb", **options):
        if mode == "rb":
            return FaultyFile(self.cat_file(path))
        return super().open(path, mode, **options)

    @classmethod
    def _strip_protocol(cls, path):
        return MemoryFileSystem._strip_protocol(path.replace("faulty://", "memory://"))

    def unstrip_protocol(self, name):
        return f"faulty://{name}"


fsspec.register_implementation("faulty", FaultySystem, clobber=True)


def put(path):
    FaultySystem.arm(0, 0)
    with FaultySystem().open(f"faulty:///{path.name}", "wb") as file:
        file.write(path.read_bytes())
    return f"faulty:///{path.name}"


def files(tmp_path):
    for kind in ("jsonl", "json", "csv", "parquet", "arrow", "arrows"):
        yield write_format(tmp_path, kind)
    for suffix, compress in COMPRESS.items():
        path = tmp_path / f"data.jsonl{suffix}"
        path.write_bytes(compress(jsonl()))
        yield path


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.ENOMEM, errno.ESTALE])
def test_a_fault_is_tried_again_then_ends_the_reading_under_skip(tmp_path, code):
    for path in files(tmp_path):
        url = put(path)
        config = SourceConfig(inputs=(url,), text_field="text", on_error="skip")
        (file,) = discover(config)
        (part,) = cut_ranges(file, 1 << 30)
        for after in (0, 1, 3):
            FaultySystem.arm(after, failures=2, code=code)
            found = [
                text for block in read_blocks(file, part, config, block_bytes=4000) for text in block.texts
            ]
            assert found == TEXTS, (path, after)
        FaultySystem.arm(0, failures=1000, code=code)
        with pytest.raises(InputUnavailableError, match=r"fault of the machine"):
            list(read_blocks(file, part, config))


def test_a_fault_while_inputs_are_found_is_no_file_of_another_format(tmp_path):
    url = put(write_format(tmp_path, "parquet"))
    FaultySystem.arm(0, failures=1000)
    with pytest.raises(InputUnavailableError):
        discover(SourceConfig(inputs=(url,), on_error="skip"))


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_stat_that_fails_once_loses_no_directory(tmp_path, monkeypatch, nth):
    (tmp_path / "a.jsonl").write_bytes(jsonl(TEXTS))
    config = SourceConfig(inputs=(str(tmp_path),), on_error="skip")
    stat, faults = os.stat, iter([0] * (nth - 1) + [errno.EIO])
    expected = discover(config)

    def fail(path, **options):
        if code := next(faults, 0):
            raise OSError(code, os.strerror(code), path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", fail)
    with contextlib.suppress(InputError):
        assert discover(config) == expected
