"""What stands in for parts of the standard library does what they do."""

import contextlib
import copy
import enum
import functools
import json
import pickle

import pytest

from jobq import light
from jobq.job import State


class Lamp(enum.StrEnum):
    """As `State` would be."""

    PENDING = "pending"
    DEAD = "dead"


class Light(light.StrEnum):
    """As `State` is."""

    PENDING = "pending"
    DEAD = "dead"

    @property
    def over(self) -> bool:
        return self is Light.DEAD


class Failed(Exception):
    pass


@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: [str(member) for member in cls],
        lambda cls: [(member.name, member.value) for member in cls],
        lambda cls: (cls("dead") is cls.DEAD, cls["DEAD"] is cls.DEAD, cls(cls.DEAD) is cls.DEAD),
        lambda cls: (len(cls), "dead" in cls._value2member_map_ if cls is Lamp else "dead" in cls, cls.DEAD in cls),
        lambda cls: (cls.DEAD == "dead", cls.DEAD == cls.DEAD, cls.DEAD == cls.PENDING, hash(cls.DEAD) == hash("dead")),
        lambda cls: (f"{cls.DEAD} {cls.DEAD:>6} %s" % cls.DEAD, json.dumps([cls.DEAD]), "-".join(cls)),
        lambda cls: repr(cls.DEAD).replace(cls.__name__, ""),
        lambda cls: (isinstance(cls.DEAD, str), isinstance(cls.DEAD, cls), sorted(cls) == [cls.DEAD, cls.PENDING]),
        lambda cls: [again(cls.DEAD) is cls.DEAD for again in (copy.copy, copy.deepcopy)],
        lambda cls: pickle.loads(pickle.dumps(cls.DEAD)) is cls.DEAD,
        lambda cls: (list(cls.__members__), cls.__members__["DEAD"] is cls.DEAD),
        lambda cls: {cls.DEAD: 1}["dead"],
        lambda cls: ([str(member) for member in reversed(cls)], cls.DEAD._value_, cls.DEAD._name_),
    ],
)
def test_an_enumeration_answers_as_that_of_the_standard_library(ask):
    assert ask(Light) == ask(Lamp)


@pytest.mark.parametrize("cls", [Lamp, Light])
def test_what_is_no_member_is_refused(cls):
    with pytest.raises(ValueError, match="'x' is not a valid"):
        cls("x")
    with pytest.raises(KeyError):
        cls["x"]


@pytest.mark.parametrize("cls", [Lamp, Light])
def test_nobody_changes_what_it_consists_of(cls):
    with pytest.raises(AttributeError):
        cls.DEAD = "alive"
    with pytest.raises(AttributeError):
        cls.DEAD.value = "alive"
    with pytest.raises(AttributeError):
        cls.DEAD.name = "ALIVE"
    assert (cls.DEAD, cls.DEAD.value, cls.DEAD.name) == ("dead", "dead", "DEAD")


def test_what_is_no_text_of_an_enumeration_is_no_member():
    assert Light.DEAD.over
    assert not Light.PENDING.over
    assert list(State.__members__) == [state.name for state in State]


@pytest.mark.parametrize("cached_property", [functools.cached_property, light.cached_property])
def test_a_cached_property_is_made_once_and_can_be_set(cached_property):
    made = []

    class Thing:
        def value(self):
            """The value."""
            made.append(self)
            return len(made)

        value = cached_property(value)
        if hasattr(value, "__set_name__"):
            value.__set_name__(None, "value")

    thing, other = Thing(), Thing()
    assert (thing.value, thing.value, thing.__dict__["value"]) == (1, 1, 1)
    other.value = 7
    assert (other.value, made) == (7, [thing])
    assert Thing.value.__doc__ == "The value."


@pytest.mark.parametrize("suppress", [contextlib.suppress, light.suppress])
def test_only_the_named_errors_are_suppressed(suppress):
    with suppress(KeyError, Failed):
        raise Failed
    with suppress(LookupError):
        raise KeyError
    with pytest.raises(Failed), suppress(KeyError):
        raise Failed
    with suppress(KeyError):
        pass


def context(manager, *, swallow=None, instead=None, again=False):
    seen = []

    @manager
    def made(thing):
        """Made."""
        seen.append("in")
        try:
            yield thing
        except BaseException as error:
            seen.append(type(error).__name__)
            if swallow is None or not isinstance(error, swallow):
                raise (instead if instead is not None else error) from None
        finally:
            seen.append("out")
        if again:
            yield

    return made, seen


MANAGERS = pytest.mark.parametrize("manager", [contextlib.contextmanager, light.contextmanager])


@MANAGERS
def test_a_context_hands_over_what_is_yielded_and_ends(manager):
    made, seen = context(manager)
    with made("thing") as thing:
        seen.append(thing)
    assert seen == ["in", "thing", "out"]
    assert (made.__name__, made.__doc__) == ("made", "Made.")


@MANAGERS
@pytest.mark.parametrize("error", [Failed("x"), StopIteration("x"), RuntimeError("x"), KeyboardInterrupt()])
def test_an_error_within_passes_through_as_it_is(manager, error):
    made, seen = context(manager)
    with pytest.raises(type(error)) as raised, made("thing"):
        raise error
    assert raised.value is error
    assert seen == ["in", type(error).__name__, "out"]
    assert [entry.name for entry in raised.traceback][-1] == "test_an_error_within_passes_through_as_it_is"


@MANAGERS
def test_an_error_may_be_swallowed_or_exchanged(manager):
    made, seen = context(manager, swallow=Failed)
    with made("thing"):
        raise Failed
    made, seen = context(manager, instead=KeyError("y"))
    with pytest.raises(KeyError, match="y"), made("thing"):
        raise Failed
    assert seen == ["in", "Failed", "out"]


@MANAGERS
def test_one_that_goes_on_is_an_error(manager):
    made, _ = context(manager, again=True)
    with pytest.raises(RuntimeError), made("thing"):
        pass
    made, _ = context(manager, again=True, swallow=Failed)
    with pytest.raises(RuntimeError), made("thing"):
        raise Failed


@MANAGERS
def test_one_that_yields_nothing_is_an_error(manager):
    @manager
    def nothing():
        if manager is None:
            yield

    with pytest.raises(RuntimeError), nothing():
        pass
