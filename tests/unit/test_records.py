"""Records: what `dataclasses` does, done without it."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.records import field, record


@record(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


@record(frozen=True, kw_only=True)
class Named:
    name: str
    tags: tuple = ()
    facts: dict = field(default_factory=dict)


@record(slots=True)
class Counter:
    count: int = 0
    seen: list = field(default_factory=list)


def test_fields_are_given_by_place_and_by_name():
    assert (Point(1, 2).x, Point(1, y=2).y, Point(x=1).y, Point(1, 2).sum) == (1, 2, 0, 3)
    assert Named(name="a", tags=("b",)).tags == ("b",)


@pytest.mark.parametrize(
    "make",
    [Point, lambda: Point(1, 2, 3), lambda: Point(1, z=2), lambda: Named("a"), Named, lambda: Point(1, x=2)],
)
def test_what_is_no_call_of_a_record_is_a_type_error(make):
    with pytest.raises(TypeError, match=r"__init__\(\)"):
        make()


def test_what_a_default_makes_is_each_record_s_own():
    one, other = Counter(), Counter()
    one.seen.append(1)
    one.count += 1
    assert (other.count, other.seen) == (0, [])
    assert Named(name="a").facts is not Named(name="a").facts


@pytest.mark.parametrize("made", [Point(1, 2), Named(name="a")], ids=["slots", "without"])
def test_a_frozen_one_takes_no_change(made):
    for change in (lambda: setattr(made, made.__fields__[0], 3), lambda: delattr(made, made.__fields__[0])):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


def test_one_with_slots_takes_nothing_else():
    assert not hasattr(Counter(), "__dict__")
    with pytest.raises(AttributeError):
        Counter().other = 1


def test_records_are_equal_where_their_class_and_fields_are():
    assert Point(1, 2) == Point(1, 2) != Point(2, 1)
    assert Point(1, 0) != (1, 0)
    assert Named(name="a") == Named(name="a")
    assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_they_show_themselves_as_they_are_made():
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert repr(Named(name="a")) == "Named(name='a', tags=(), facts={})"


def test_they_are_taken_apart_by_place():
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


@pytest.mark.parametrize("made", [Point(1, 2), Named(name="a", facts={"b": 1}), Counter(3, [4])])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_they_can_be_copied(made, again):
    assert again(made) == made


def test_inspect_tells_how_they_are_called():
    assert str(inspect.signature(Point)) == "(x: int, y: int = 0) -> None"
    assert str(inspect.signature(Named)).startswith("(*, name: str, tags: tuple = (), facts: dict = ")
    assert list(inspect.signature(Point).bind(1).arguments) == ["x"]


def test_a_class_that_is_derived_from_one_tells_of_its_own_call():
    class Other(Point):
        def __init__(self, other: int) -> None:
            super().__init__(other, other)

    assert str(inspect.signature(Other)) == "(other: int) -> None"
    assert str(inspect.signature(Point)) == "(x: int, y: int = 0) -> None"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace is new in Python 3.13")
def test_copy_can_replace_fields():
    assert copy.replace(Point(1, 2), y=3) == Point(1, 3)


class Outer:
    @record(frozen=True, slots=True)
    class Inner:
        x: int


def test_one_within_a_class_is_found_there():
    assert pickle.loads(pickle.dumps(Outer.Inner(1))) == Outer.Inner(1)
    assert repr(Outer.Inner(1)) == "Outer.Inner(x=1)"


def test_dataclasses_knows_them():
    assert dataclasses.replace(Point(1, 2), y=3) == Point(1, 3)
    assert dataclasses.asdict(Named(name="a")) == {"name": "a", "tags": (), "facts": {}}
    assert [each.name for each in dataclasses.fields(Counter)] == ["count", "seen"]
    assert dataclasses.fields(Named)[2].default_factory is dict
    assert dataclasses.fields(Point)[0].default is dataclasses.MISSING
    assert dataclasses.is_dataclass(Point(1))


def test_a_dataclass_can_be_derived_from_one():
    @dataclasses.dataclass(frozen=True)
    class Space(Point):
        z: int = 0

    assert Space(1, 2, 3) == dataclasses.replace(Space(1, 2, 0), z=3)
    with pytest.raises(TypeError, match="frozen"):
        dataclasses.dataclass(type("Thawed", (Point,), {"__annotations__": {"z": int}}))


def outcome(make, args, kwargs):
    """The values of what a call makes by name, in their order; TypeError where it is none."""
    try:
        made = make(*args, **kwargs)
    except TypeError as error:
        return type(error)
    return [(name, getattr(made, name)) for name in ("a", "b", "c") if hasattr(made, name)]


NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize("before", [0, 300], ids=["one of the first few", "one of many"])
@given(
    options=st.fixed_dictionaries({name: st.booleans() for name in ("frozen", "slots", "kw_only")}),
    given_defaults=st.sampled_from([{}, {"c": 3}, {"b": 2, "c": 3}, {"c": list}]),
    args=st.lists(st.integers(), max_size=4),
    kwargs=st.dictionaries(st.sampled_from(NAMES), st.integers()),
)
def test_a_call_makes_what_that_of_a_dataclass_makes(before, options, given_defaults, args, kwargs):
    def made_by(decorate, field):
        defaults = {
            name: field(default_factory=value) if value is list else value for name, value in given_defaults.items()
        }
        body = {"__annotations__": dict.fromkeys(NAMES[:3], "int"), **defaults}
        return decorate(**options)(type("Made", (), body))

    mine, theirs = made_by(record, field), made_by(dataclasses.dataclass, dataclasses.field)
    for _ in range(before):
        mine(a=1, b=2, c=3)
    assert outcome(mine, args, kwargs) == outcome(theirs, args, kwargs)


def test_they_bring_nothing_with_them():
    script = "import sys; before = set(sys.modules); import jobq.records; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__future__", "jobq", "jobq.records"}
