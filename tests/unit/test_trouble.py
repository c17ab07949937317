"""What a worker does while its store refuses: how soon it asks again."""

import pytest

from jobq.errors import StoreUnavailable
from jobq.testing import FakeClock
from jobq.trouble import LAST_PAUSE, StoreTrouble

LOOK_SECONDS = 0.25


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def trouble(clock):
    return StoreTrouble(clock, lambda note: None)


def test_it_asks_ever_less_often(trouble, clock):
    pauses = []
    for _ in range(12):
        trouble.note(StoreUnavailable("no"))
        pauses.append(round(trouble.pause(clock.monotonic()), 3))
        clock.advance(pauses[-1])
        assert not trouble.resting
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == LAST_PAUSE


def test_what_fails_while_it_rests_puts_nothing_off(trouble, clock):
    """A worker goes on to look around while it rests; each look fails as well."""
    trouble.note(StoreUnavailable("first"))
    clock.advance(trouble.pause(clock.monotonic()))
    trouble.note(StoreUnavailable("second"))
    trouble.note(StoreUnavailable("third"))
    assert trouble.pause(clock.monotonic()) == pytest.approx(0.2)
    assert str(trouble.error) == "third"


def test_after_an_outage_it_rests_no_longer_than_the_outage_was(trouble, clock):
    began = clock.monotonic()
    while clock.monotonic() - began < 10:
        trouble.note(StoreUnavailable("no"))
        clock.advance(LOOK_SECONDS)
    assert trouble.pause(clock.monotonic()) <= 10


def test_once_the_store_works_it_begins_anew(trouble, clock):
    for _ in range(5):
        trouble.note(StoreUnavailable("no"))
        clock.advance(trouble.pause(clock.monotonic()))
    assert trouble.over()
    assert not trouble.over()
    assert not trouble.resting
    trouble.note(StoreUnavailable("no"))
    assert trouble.pause(clock.monotonic()) == pytest.approx(0.1)
