"""The default backoff."""

import random
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.backoff import exponential, guarded
from jobq.executor import Kind, Outcome
from jobq.testing import FixedRandom, make_settings
from jobq.times import MAX_DURATION

HOUR = timedelta(hours=1)
OUTCOME = Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1)


def delay(attempt, *, initial=2.0, base=2.0, cap=HOUR, jitter=False, chance=0.5):
    return exponential(
        attempt=attempt,
        initial=timedelta(seconds=initial),
        base=base,
        cap=cap,
        jitter=jitter,
        random=FixedRandom(chance),
    )


def test_each_wait_is_a_multiple_of_the_one_before():
    assert [delay(attempt).total_seconds() for attempt in range(1, 7)] == [2, 4, 8, 16, 32, 64]
    assert [delay(attempt, initial=0.1).total_seconds() for attempt in (1, 2)] == [0.1, 0.2]
    assert [delay(attempt, base=1).total_seconds() for attempt in (1, 2, 9)] == [2, 2, 2]
    assert [delay(attempt, base=1.5).total_seconds() for attempt in (1, 2, 3)] == [2, 3, 4.5]


@pytest.mark.parametrize("attempt", [12, 100, 1024, 10_000, 10**9, 2**70])
def test_no_wait_is_longer_than_the_cap(attempt):
    assert delay(attempt) == HOUR
    assert delay(attempt, base=1e9) == HOUR
    assert delay(attempt, jitter=True, chance=0.0) == HOUR / 2


def test_nothing_to_begin_with_is_nothing_for_ever():
    assert delay(1, initial=0) == timedelta()
    assert delay(10_000, initial=0) == timedelta()


def test_the_jitter_is_between_half_and_whole():
    assert delay(3, jitter=True, chance=0.0) == timedelta(seconds=4)
    assert delay(3, jitter=True, chance=0.5) == timedelta(seconds=6)
    assert timedelta(seconds=7.9999) < delay(3, jitter=True, chance=1 - 2**-53) <= timedelta(seconds=8)


def test_the_jitter_uses_the_whole_of_its_half():
    chance = random.Random(1)
    waits = [
        exponential(attempt=3, initial=timedelta(seconds=2), base=2, cap=HOUR, jitter=True, random=chance)
        for _ in range(1000)
    ]
    assert min(waits) < timedelta(seconds=4.1)
    assert max(waits) > timedelta(seconds=7.9)


@given(
    st.integers(1, 10**6),
    st.floats(0, 1e6),
    st.floats(1, 100),
    st.floats(0, MAX_DURATION.total_seconds()),
    st.booleans(),
    st.floats(0, 1, exclude_max=True),
)
def test_every_wait_is_within_its_bounds(attempt, initial, base, cap, jitter, chance):
    cap = timedelta(seconds=cap)
    arguments = {"initial": initial, "base": base, "cap": cap, "jitter": jitter, "chance": chance}
    wait = delay(attempt, **arguments)
    assert timedelta() <= wait <= cap
    assert wait <= delay(attempt + 1, **arguments) or jitter


class Broken:
    def __init__(self, answer):
        self.answer = answer

    def delay(self, **_given):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def ask(answer):
    told = []
    settings = make_settings(values={"backoff-jitter": False})
    return guarded(Broken(answer), "odd", settings, FixedRandom(), told.append)(3, OUTCOME), told


@pytest.mark.parametrize("answer", [None, timedelta(), timedelta(seconds=7), MAX_DURATION])
def test_a_sound_answer_is_used(answer):
    assert ask(answer) == (answer, [])


@pytest.mark.parametrize(
    "answer", [timedelta(seconds=-1), MAX_DURATION * 2, 5, "soon", ValueError("no idea"), SimpleNamespace()]
)
def test_a_backoff_that_fails_is_named_and_the_default_used(answer):
    wait, (sentence,) = ask(answer)
    assert wait == timedelta(seconds=8)
    assert sentence.startswith("backoff odd ")
    assert "default formula" in sentence
