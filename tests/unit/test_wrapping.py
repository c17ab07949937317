"""What is done around an attempt: entered and left in order, told of failures, and no judge of the outcome."""

from contextlib import contextmanager

import pytest

from jobq.executor import Kind, Outcome
from jobq.providers import Provider
from jobq.testing import make_context, make_job, make_settings
from jobq.wrapping import AttemptFailed, AttemptWrapper, Wrapping


class Noting(AttemptWrapper):
    """Notes what happens to it; does what `bad` says at the point that it names."""

    def __init__(self, name, notes, bad=None, gives=None):
        self.name, self.notes, self.bad, self.gives = name, notes, bad or {}, gives

    def around(self, job):
        self._at("around")
        return self._managed(job)

    @contextmanager
    def _managed(self, job):
        self._at("enter")
        self.notes.append(f"{self.name} enters {job.id}")
        try:
            yield self.gives
        except BaseException as error:
            self.notes.append(f"{self.name} sees {type(error).__name__}: {error}")
            if "swallow" not in self.bad:
                raise
        else:
            self.notes.append(f"{self.name} leaves")
        finally:
            self._at("leave")

    def _at(self, point):
        if point in self.bad:
            raise self.bad[point]


@pytest.fixture
def notes():
    return []


@pytest.fixture
def told():
    return []


@pytest.fixture
def wrapping(tmp_path, told):
    """The wrapping of wrappers that these functions make, `w0`, `w1`, …"""

    def make(*makers):
        providers = [
            (f"wrapper w{number}", Provider(name=f"w{number}", summary="", make=lambda settings, context, m=m: m()))
            for number, m in enumerate(makers)
        ]
        wrapping = Wrapping(providers, make_settings(), make_context(tmp_path), told.append)
        wrapping.make()
        return wrapping

    return make


def test_the_last_one_entered_is_the_first_one_left(wrapping, notes, told):
    entered = wrapping(lambda: Noting("a", notes), lambda: Noting("b", notes)).enter(make_job("j"))
    entered.leave(None)
    assert notes == ["a enters j", "b enters j", "b leaves", "a leaves"]
    assert told == []


def test_each_sees_what_the_handler_raised(wrapping, notes, told):
    entered = wrapping(lambda: Noting("a", notes), lambda: Noting("b", notes)).enter(make_job("j"))
    entered.leave(ValueError("no such size"))
    assert notes[2:] == ["b sees ValueError: no such size", "a sees ValueError: no such size"]
    assert told == []


def test_a_command_that_failed_is_seen_as_its_reason(wrapping, notes):
    wrapping(lambda: Noting("a", notes)).enter(make_job("j")).ended(Outcome(kind=Kind.FAILURE, reason="exit code 3"))
    assert notes[1:] == ["a sees AttemptFailed: exit code 3"]


def test_a_command_that_succeeded_is_left_with_nothing(wrapping, notes):
    wrapping(lambda: Noting("a", notes)).enter(make_job("j")).ended(Outcome(kind=Kind.SUCCESS, exit_code=0))
    assert notes[1:] == ["a leaves"]


def test_the_outcome_of_a_command_is_with_the_error():
    outcome = Outcome(kind=Kind.TIMEOUT, reason="timed out after 1s")
    assert AttemptFailed(outcome).outcome is outcome
    assert str(AttemptFailed(Outcome(kind=Kind.SIGNAL))) == "signal"


def test_an_exception_that_one_swallows_is_seen_by_the_next(wrapping, notes, told):
    entered = wrapping(lambda: Noting("a", notes), lambda: Noting("b", notes, {"swallow": True})).enter(make_job("j"))
    entered.leave(ValueError("v"))
    assert notes[2:] == ["b sees ValueError: v", "a sees ValueError: v"]
    assert told == []


@pytest.mark.parametrize("point", ["around", "enter"])
@pytest.mark.parametrize("error", [RuntimeError("no luck"), SystemExit("no luck")])
def test_one_that_cannot_be_entered_is_reported_and_the_others_go_on(wrapping, notes, told, point, error):
    entered = wrapping(lambda: Noting("a", notes, {point: error}), lambda: Noting("b", notes)).enter(make_job("j"))
    entered.leave(None)
    assert notes == ["b enters j", "b leaves"]
    assert told == [f"wrapper w0 failed: {type(error).__name__}: no luck"]


def test_one_that_cannot_be_left_is_reported_and_the_others_go_on(wrapping, notes, told):
    bad = {"leave": RuntimeError("no luck")}
    entered = wrapping(lambda: Noting("a", notes), lambda: Noting("b", notes, bad)).enter(make_job("j"))
    entered.leave(ValueError("v"))
    assert notes[-1] == "a sees ValueError: v"
    assert told == ["wrapper w1 failed: RuntimeError: no luck"]


def test_one_that_cannot_be_made_is_reported_and_left_out(wrapping, notes, told):
    def fails():
        raise OSError("no collector")

    wrapping(fails, lambda: Noting("b", notes)).enter(make_job("j")).leave(None)
    assert notes == ["b enters j", "b leaves"]
    assert told == ["wrapper w0 failed: OSError: no collector"]


def test_they_are_made_once(wrapping, notes):
    made = []
    wrapped = wrapping(lambda: made.append(1) or Noting("a", notes))
    wrapped.make()
    wrapped.enter(make_job("j")).leave(None)
    assert made == [1]


def test_what_entering_gives_is_for_the_environment(wrapping, notes):
    entered = wrapping(
        lambda: Noting("a", notes, gives={"A": "1", "B": "1"}), lambda: Noting("b", notes, gives={"B": "2"})
    ).enter(make_job("j"))
    assert entered.environment == {"A": "1", "B": "2"}


@pytest.mark.parametrize("gives", [{"A=B": "1"}, {"": "1"}, {"A": "\0"}, {"A": 1}, {1: "A"}, ["A"], 7])
def test_what_no_process_can_be_started_with_is_reported_and_left_out(wrapping, notes, told, gives):
    entered = wrapping(lambda: Noting("a", notes, gives=gives), lambda: Noting("b", notes, gives={"B": "2"})).enter(
        make_job("j")
    )
    assert entered.environment == {"B": "2"}
    assert len(told) == 1
    assert told[0].startswith("wrapper w0 failed: ")
    entered.leave(None)
    assert notes[-1] == "a leaves"
