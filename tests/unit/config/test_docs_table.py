"""The reference in the docs is the schema itself."""

from pathlib import Path

from tokenmill.settings.describe import make_table
from tokenmill.settings.environment import VARIABLES

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_tables_are_those_of_the_schema():
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition("<!-- schema -->\n")[2].strip() == make_table().strip(), (
        "the schema has changed: put the output of `tokenmill config schema --table` below the mark"
    )


def test_every_variable_is_told():
    text = PAGE.read_text(encoding="utf-8")
    assert all(variable in text for variable in VARIABLES)
