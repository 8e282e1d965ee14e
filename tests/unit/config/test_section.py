"""Values against annotations, and sections made of them."""

import pickle
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from tokenmill.settings.fields import Marker, Names, Positive, Size
from tokenmill.settings.kinds import Limit, MismatchError, check
from tokenmill.settings.schema import JobConfig, PackingConfig
from tokenmill.settings.section import Section, SettingError

READ = [
    (Positive, "8", 8),
    (Positive, 8.0, 8),
    (Positive | None, None, None),
    (Size, "1.5KiB", 1536),
    (Size | None, 7, 7),
    (Annotated[float, Limit(">", 0)], "0.5", 0.5),
    (bool, "Yes", True),
    (bool, 0, False),
    (Names, "one", ("one",)),
    (Names, ["one", "two"], ("one", "two")),
    (Marker, "false", False),
    (Marker, "7", "7"),
    (Marker, 7, 7),
    (Marker, True, True),
    (Literal["a", 1], 1, 1),
]
REFUSED = [
    (Positive, True, "a whole number"),
    (Positive, "1.5", "a whole number"),
    (Positive, [], "a whole number"),
    (Positive, 0, "a number above 0"),
    (Annotated[int, Limit("≥", 0)], -1, "a number of at least 0"),
    (Annotated[float, Limit(">", 0)], "fast", "a number"),
    (bool, "perhaps", "true or false"),
    (bool, 2, "true or false"),
    (str, 7, "text"),
    (Names, 7, "a list"),
    (Names, ["one", 2], "text as item 2"),
    (Literal["a", "b", 1], True, "one of 'a', 'b' or 1"),
    (Marker, [], "text or a whole number or true or false"),
]


@pytest.mark.parametrize(("annotation", "value", "wanted"), READ)
def test_a_value_is_read_as_its_annotation_says(annotation, value, wanted):
    found = check(annotation, value)
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(("annotation", "value", "expected"), REFUSED)
def test_any_other_value_is_refused_with_what_was_expected(annotation, value, expected):
    with pytest.raises(MismatchError) as refused:
        check(annotation, value)
    assert str(refused.value) == f"expected {expected}"


@pytest.mark.parametrize(
    ("annotation", "value"), [(Positive, "8"), (Positive, 8.0), (bool, "yes"), (bool, 1)]
)
def test_a_file_has_types_of_its_own(annotation, value):
    with pytest.raises(MismatchError):
        check(annotation, value, strict=True)


@dataclass(frozen=True, kw_only=True)
class Needy(Section):
    name: str
    inner: PackingConfig = PackingConfig()  # noqa: RUF009 - frozen


def test_a_section_checks_and_compares():
    assert Needy(name="a").inner == PackingConfig()
    inner = {"mode": "concat", "context_length": "8", "columns": ["labels"]}
    made = Needy.from_dict({"name": "a", "inner": inner})
    assert (made.inner.mode, made.inner.context_length) == ("concat", 8)
    assert Needy.from_dict(made.to_dict()) == made
    assert made.to_dict()["inner"]["columns"] == ["labels"]
    assert made != Needy(name="a")
    assert len({made, Needy(name="a"), pickle.loads(pickle.dumps(made))}) == 2
    assert repr(made).startswith("Needy(name='a', inner=PackingConfig(mode='concat', ")


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ({"name": 3}, "name", "expected text, found 3"),
        ({"name": "a", "nome": "b"}, "nome", "unknown; known here: inner, name"),
        ({"name": "a", "inner": {"overlap": 3}}, "inner.overlap", "needs a context_length"),
        ({"name": "a", "inner": {"overlap": -3}}, "inner.overlap", "at least 0"),
        ({"name": "a", "inner": 3}, "inner", "a section of settings"),
    ],
)
def test_a_section_names_the_setting_at_fault(given, key, words):
    with pytest.raises(SettingError, match=words) as refused:
        Needy.from_dict(given)
    assert refused.value.key == key


def test_the_whole_config_survives_a_process():
    config = JobConfig(packing=PackingConfig(mode="window", context_length=16, overlap=4))
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.list_deciding_settings()["packing.mode"] == "window"
