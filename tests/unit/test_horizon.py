"""Which due times keep a worker that is to end, and what it says of the wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobq.horizon import Horizon
from jobq.testing import START, FakeClock

WITHIN = {None: 0, "idle": 0, "empty": 24 * 3600}


@pytest.fixture
def told():
    return []


@pytest.fixture
def clock():
    return FakeClock()


@pytest.mark.parametrize("until", WITHIN)
def test_what_is_due_within_reach_is_waited_for(clock, told, until):
    horizon = Horizon(until, clock, told.append)
    last = START + timedelta(seconds=WITHIN[until])
    assert horizon.waits_for(START - timedelta(days=1))
    assert horizon.waits_for(last)
    assert not horizon.waits_for(last + timedelta(milliseconds=1))
    assert not horizon.waits_for(None)


def test_a_long_wait_is_told_once_with_its_end(clock, told):
    horizon = Horizon("empty", clock, told.append)
    due = START + timedelta(hours=19)
    for _ in range(3):
        assert horizon.waits_for(due)
        clock.advance(100)
    local = due.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert told == [f"waiting for the next job that is due: at {local}, in 19h"]
    assert horizon.waits_for(due - timedelta(hours=1))
    assert len(told) == 2


def test_of_a_wait_of_a_minute_nothing_is_told(clock, told):
    assert Horizon("empty", clock, told.append).waits_for(START + timedelta(minutes=1))
    assert told == []
