"""The bell that wakes whoever waits."""

import os
import threading

import pytest

from jobq.clock import SystemClock, Wake


@pytest.fixture(params=["eventfd", "pipe"])
def wake(request, monkeypatch):
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("the system has no eventfd")
    with Wake() as wake:
        yield wake


def test_a_bell_that_was_rung_before_ends_the_wait_at_once(wake):
    wake.ring()
    assert SystemClock().wait(wake, None)


def test_ringing_twice_is_ringing_once(wake):
    wake.ring()
    wake.ring()
    assert wake.clear()
    assert not wake.clear()


def test_it_rings_again_after_it_was_cleared(wake):
    for _ in range(3):
        wake.ring()
        assert SystemClock().wait(wake, 60)
    assert not SystemClock().wait(wake, 0)


def test_another_thread_wakes_whoever_waits(wake):
    threading.Timer(0.05, wake.ring).start()
    assert SystemClock().wait(wake, 60)


def test_ringing_one_that_is_closed_does_nothing(wake):
    wake.close()
    wake.ring()
    wake.close()


def test_its_descriptors_are_freed_and_not_inherited(wake):
    descriptors = {wake._read, wake._write}
    assert not any(map(os.get_inheritable, descriptors))
    wake.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
