"""Sizes as people write them; the same reading for settings and for flags."""

import click
import pytest

from tokenmill.base.words import parse_size
from tokenmill.cli.options import Value
from tokenmill.settings.schema import Size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("825GB", 825 * 10**9),
        ("1.5 TiB", 3 << 39),
        ("64mi", 64 << 20),
        ("4k", 4000),
        ("2PB", 2 * 10**15),
        ("1e9", 10**9),
        (" 17 ", 17),
    ],
)
def test_sizes(text, count):
    assert parse_size(text) == count
    assert Value(Size).convert(text, None, None) == count


@pytest.mark.parametrize(
    "text", ["", "GB", "-1", "4XB", "1.2.3GB", "lots", "1e999999999", "٣GB", "nan", "inf"]
)
def test_what_is_not_a_size_is_named(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)
    with pytest.raises(click.BadParameter, match="expected size"):
        Value(Size).convert(text, None, None)
