"""Our dataclasses do what the standard ones do."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, asdict, field, replace

import pytest

from tokenmill.base.dataclass import dataclass


def make(decorate):
    @decorate
    class Point:
        """A class with every kind of field that we use."""

        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        note: str = field(default="", repr=False, compare=False)
        total: int = field(init=False, default=0)

        def __post_init__(self):
            object.__setattr__(self, "total", self.x + self.y)

    Point.__qualname__ = "Point"
    return Point


KINDS = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}]
MADE = [(make(dataclass(**kind)), make(dataclasses.dataclass(**kind))) for kind in KINDS]


@pytest.mark.parametrize("kind", range(4))
def test_as_the_standard_ones(kind):
    for each in MADE[kind]:
        point = each(1, names=["a"], note="n")
        assert repr(point) == "Point(x=1, y=2, names=['a'], total=3)"
        assert asdict(point) == {"x": 1, "y": 2, "names": ["a"], "note": "n", "total": 3}
        assert point == each(1, 2, ["a"], "other note")
        assert point != each(1, 3, ["a"])
        assert point != (1, 2, ["a"])
        assert replace(point, y=5).total == 6
        assert copy.copy(point) == point
        assert each(1).names is not each(1).names
        assert hasattr(point, "__dict__") != bool(KINDS[kind].get("slots"))


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("arguments", [((), {}), ((1,), {"x": 2}), ((1, 2, [], "", 5), {}), ((1,), {"z": 1})])
def test_wrong_arguments(kind, arguments):
    for each in MADE[kind]:
        with pytest.raises(TypeError, match=r"Point\b"):
            each(*arguments[0], **arguments[1])


@pytest.mark.parametrize("kind", [1, 3])
def test_frozen_ones_cannot_change_and_have_a_hash(kind):
    for each in MADE[kind]:
        point = each(1, names=())
        with pytest.raises(FrozenInstanceError):
            point.x = 3
        with pytest.raises(FrozenInstanceError):
            del point.x
        assert hash(point) == hash(each(1, names=(), note="not compared"))


@pytest.mark.parametrize("kind", [0, 2])
def test_others_can_change_and_have_none(kind):
    for each in MADE[kind]:
        point = each(1)
        point.x = 3
        assert (point.x, point.total) == (3, 3)
        with pytest.raises(TypeError, match="unhashable"):
            hash(point)


@dataclass(frozen=True, slots=True)
class Sent:
    """At the top of a module, where pickle finds it."""

    value: int
    more: tuple[int, ...] = ()

    def __repr__(self):
        return "my own words"


def test_pickled_and_what_a_class_says_itself_counts():
    assert pickle.loads(pickle.dumps(Sent(1, (2,)))) == Sent(1, (2,))
    assert repr(Sent(1)) == "my own words"
