"""Notifiers hear every event once and in order; none of them can hold up the program or the others."""

import threading
import time

import pytest

from jobq import notify
from jobq.events import Event, EventKind
from jobq.notify import Notifications, Notifier
from jobq.testing import START, make_job

DEADLINE = 20.0


def event(number=1):
    return Event(EventKind.COMPLETED, make_job(f"job-{number}"), number, START)


def eventually(condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def gate():
    """What a notifier can be held up by; open at the end, so that no thread is left in it."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def telling():
    """Makes `Notifications` that tell these callables; with what they warn of."""
    made = []

    def make(*calls, settings=None):
        warned = []
        notifiers = [Notifier(f"notifier n{number}", call) for number, call in enumerate(calls)]
        notifications = Notifications(notifiers, settings, warned.append)
        made.append(notifications)
        return notifications, warned

    yield make
    for notifications in made:
        notifications.close()


def test_events_come_in_order_to_each_with_the_settings(telling):
    heard = []
    settings = object()
    notifications, warned = telling(
        lambda event, given: heard.append(("a", event.run, given is settings)),
        lambda event, given: heard.append(("b", event.run, given is settings)),
        settings=settings,
    )
    for number in range(3):
        notifications.send(event(number))
    notifications.close()
    assert heard == [(name, number, True) for number in range(3) for name in "ab"]
    assert warned == []


def test_delivery_is_in_a_thread_of_its_own(telling, gate):
    threads = []
    notifications, _ = telling(lambda event, settings: (threads.append(threading.current_thread()), gate.wait()))
    notifications.send(event())
    eventually(lambda: threads)
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


def test_where_nobody_listens_there_is_no_thread(telling):
    notifications, _ = telling()
    assert not notifications
    before = threading.active_count()
    notifications.send(event())
    assert threading.active_count() == before
    notifications.close()


def test_one_that_raises_is_told_of_and_called_again_and_the_next_hears_all(telling):
    calls, heard = [], []

    def broken(event, settings):
        calls.append(event.run)
        raise ValueError("no luck")

    notifications, warned = telling(broken, lambda event, settings: heard.append(event.run))
    notifications.send(event(1))
    notifications.send(event(2))
    notifications.close()
    assert calls == heard == [1, 2]
    assert warned == ["notifier n0 failed on completed: ValueError: no luck"] * 2


def test_one_that_exits_is_told_of_like_one_that_raises(telling):
    heard = []

    def leaving(event, settings):
        raise SystemExit(3)

    notifications, warned = telling(leaving, lambda event, settings: heard.append(event.run))
    notifications.send(event(1))
    notifications.send(event(2))
    notifications.close()
    assert heard == [1, 2]
    assert warned == ["notifier n0 failed on completed: SystemExit: 3"] * 2


def test_one_that_is_too_slow_is_given_up_and_the_others_go_on(telling, gate, monkeypatch):
    heard = []
    notifications, warned = telling(
        lambda event, settings: gate.wait(), lambda event, settings: heard.append(event.run)
    )
    notifications.send(event(1))
    eventually(lambda: notifications._calling is not None)
    monkeypatch.setattr(notify, "SLOW_SECONDS", 0.0)
    notifications.send(event(2))
    monkeypatch.undo()
    eventually(lambda: 2 in heard)
    assert heard == [1, 2], "the others hear of the event that it hung on, too"
    assert warned == ["notifier n0 took over 0 s for an event and is no longer told"]
    gate.set()
    notifications.send(event(3))
    eventually(lambda: 3 in heard)
    notifications.close()
    assert len(warned) == 1


def test_one_slow_notifier_alone_leaves_nobody(telling, gate, monkeypatch):
    notifications, _ = telling(lambda event, settings: gate.wait())
    notifications.send(event(1))
    eventually(lambda: notifications._calling is not None)
    monkeypatch.setattr(notify, "SLOW_SECONDS", 0.0)
    notifications.send(event(2))
    assert not notifications


def test_events_beyond_the_queues_limit_are_dropped_and_told_once(telling, gate, monkeypatch):
    heard = []
    monkeypatch.setattr(notify, "QUEUE_LIMIT", 3)
    notifications, warned = telling(lambda event, settings: (gate.wait(), heard.append(event.run)))
    notifications.send(event(0))
    eventually(lambda: notifications._calling is not None)
    for number in range(1, 8):
        notifications.send(event(number))
    assert warned == ["notifiers are behind by 3 events; further ones are dropped"]
    gate.set()
    notifications.close()
    assert heard == [0, 1, 2, 3]


def test_one_that_stays_slow_is_one_trouble_and_told_once_until_all_is_delivered(telling, monkeypatch):
    started, go_on = threading.Semaphore(0), threading.Semaphore(0)
    monkeypatch.setattr(notify, "QUEUE_LIMIT", 3)
    notifications, warned = telling(lambda event, settings: (started.release(), go_on.acquire()))
    notifications.send(event())
    for _ in range(5):
        assert started.acquire(timeout=DEADLINE)
        for _ in range(5):
            notifications.send(event())
        go_on.release()
    assert warned == ["notifiers are behind by 3 events; further ones are dropped"]
    go_on.release(100)
    eventually(lambda: not notifications._events and notifications._dropped == 0)
    go_on = threading.Semaphore(0)
    for _ in range(6):
        notifications.send(event())
    assert len(warned) == 2, "the next trouble is another one"
    go_on.release(100)


class Mute(BaseException):
    """An error that cannot even say what it is."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize("error", [ValueError("no luck"), Mute(), KeyboardInterrupt(), GeneratorExit()])
def test_neither_a_broken_notifier_nor_a_listener_that_raises_ends_the_delivery(error):
    heard, told = [], []

    def broken(event, settings):
        heard.append(event.run)
        raise error

    def warn(message):
        told.append(message)
        raise OSError("nobody listens")

    notifications = Notifications([Notifier("n", broken)], None, warn)
    for number in (1, 2):
        notifications.send(event(number))
    notifications.close()
    assert heard == [1, 2]
    assert len(told) == 2
    assert all(type(error).__name__ in message for message in told)


def test_closing_waits_no_longer_than_it_may_and_says_what_was_lost(telling, gate, monkeypatch):
    monkeypatch.setattr(notify, "CLOSE_SECONDS", 0.01)
    notifications, warned = telling(lambda event, settings: gate.wait())
    notifications.send(event(1))
    notifications.send(event(2))
    eventually(lambda: notifications._calling is not None)
    notifications.close()
    assert warned == ["notifier n0 was still busy at the end: 2 events not delivered in time"]


def test_closing_waits_for_what_is_under_way(telling):
    heard = []
    notifications, warned = telling(lambda event, settings: (time.sleep(0.02), heard.append(event.run)))
    for number in range(5):
        notifications.send(event(number))
    notifications.close()
    assert heard == list(range(5))
    assert warned == []


def test_sending_returns_while_a_notifier_is_held_up(telling, gate):
    notifications, _ = telling(lambda event, settings: gate.wait())
    for number in range(100):
        notifications.send(event(number))
    assert not gate.is_set()
