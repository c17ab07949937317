"""Which child has which attempts."""

from collections import deque
from datetime import timedelta
from types import SimpleNamespace

import pytest

from jobq.testing import FakeClock, make_job
from jobq_subprocess.ahead import AHEAD_SECONDS, MOST_AHEAD, TAKEN_BACK_AFTER, Means
from jobq_subprocess.roster import FOREVER, Roster


class Child:
    """A child that takes what it is told to take."""

    def __init__(self):
        self.run, self.slot, self.jobs = None, 0, 0
        self.ahead, self.unsent, self.queue = deque(), [], []
        self.listened = self.takes_ahead = True

    def put(self, line):
        self.unsent.append(line)

    def send_rest(self):
        self.queue += self.unsent
        self.unsent = []
        return True

    def take_back(self):
        found, self.queue, self.unsent = {*self.queue, *self.unsent}, [], []
        return found


class Run:
    """An attempt."""

    def __init__(self, job, slot):
        self.attempt = SimpleNamespace(job=job, slot=slot)
        self.line = job.id.encode()
        self.child = self.started_at = self.sent = None
        self.began = 0.0


def run(handler="h", slot=0, **fields):
    return Run(make_job(handler=handler, **fields), slot)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def roster(clock):
    return Roster(clock, 1000)


@pytest.fixture
def means():
    means = Means()
    means.note("h", AHEAD_SECONDS / 10)
    return means


def busy(roster, **fields):
    child, first = Child(), run(**fields)
    roster.add(child, first)
    roster.begin(first)
    return child


def test_an_idle_child_has_the_next_attempt_in_its_slot(roster):
    child = busy(roster, slot=3)
    assert roster.assign(run()) is None
    assert roster.next(child) is None
    following = run(slot=5)
    assert roster.assign(following) is child
    assert (child.run, following.child, child.slot) == (following, child, 5)


def test_what_was_sent_ahead_begins_in_order_and_in_the_slot(roster, clock):
    child = busy(roster, slot=3)
    first, second = run(slot=None), run(slot=None)
    assert roster.line_up(child, first)
    assert roster.line_up(child, second)
    clock.advance(1.0)
    assert roster.next(child) is first
    assert (first.began, first.started_at, child.slot) == (clock.monotonic(), clock.now(), 3)
    assert roster.next(child) is second
    assert roster.next(child) is None


def test_of_a_batch_only_what_its_child_will_soon_want_is_sent_at_once(roster):
    child = busy(roster)
    first, second, third = (run(slot=None) for _ in range(3))
    roster.line_up(child, first)
    assert (child.queue, child.unsent) == ([first.line], [])
    roster.line_up(child, second)
    roster.line_up(child, third)
    assert (child.queue, child.unsent) == ([first.line], [second.line, third.line])
    assert roster.send_rest(child)
    assert (child.queue, child.unsent) == ([first.line, second.line, third.line], [])


def test_what_waits_for_the_end_of_a_batch_is_taken_back_like_what_was_sent(roster):
    child = busy(roster)
    first, second = run(slot=None), run(slot=None)
    roster.line_up(child, first)
    roster.line_up(child, second)
    assert roster.take_back(child) == [first, second]
    assert (child.queue, child.unsent) == ([], [])


def test_what_is_sent_to_a_child_that_has_become_idle_begins_at_once(roster, clock):
    child = busy(roster, slot=3)
    roster.next(child)
    late = run(slot=None)
    assert roster.line_up(child, late)
    assert (child.run, late.started_at, child.slot) == (late, clock.now(), 3)
    assert roster.assign(run()) is None, "it is idle no longer"


def test_a_child_that_takes_nothing_ahead_is_sent_nothing(roster):
    child = busy(roster)
    child.takes_ahead = False
    assert not roster.line_up(child, run(slot=None))
    assert (list(child.ahead), child.queue) == ([], [])


def test_room_is_what_is_left_of_the_time(roster, means):
    child = busy(roster)
    (room,) = roster.rooms(means)
    assert room.seconds == pytest.approx(AHEAD_SECONDS * 0.9)
    assert room.count == MOST_AHEAD
    roster.line_up(child, run(slot=None))
    (room,) = roster.rooms(means)
    assert room.seconds == pytest.approx(AHEAD_SECONDS * 0.8)
    assert room.count == MOST_AHEAD - 1


def test_there_is_no_room_behind_what_takes_longer_than_thought(roster, means, clock):
    busy(roster)
    clock.advance(2 * AHEAD_SECONDS)
    assert roster.rooms(means) == []


def test_there_is_no_room_behind_what_nobody_knows(roster, means):
    busy(roster, handler="other")
    (room,) = roster.rooms(means)
    assert room.seconds == -FOREVER


def test_what_was_not_taken_is_taken_back(roster):
    child = busy(roster)
    current, ahead = child.run, [run(slot=None) for _ in range(3)]
    for each in ahead:
        roster.line_up(child, each)
    assert roster.take_back(child) == ahead
    assert (child.run, list(child.ahead)) == (current, [])


def test_what_it_has_taken_meanwhile_stays_with_it(roster):
    child = busy(roster)
    first, second = run(slot=None), run(slot=None)
    roster.line_up(child, first)
    roster.line_up(child, second)
    child.queue.remove(first.line)
    assert roster.take_back(child) == [second]
    assert list(child.ahead) == [first]


def test_one_that_was_handed_over_just_now_is_taken_back_too(roster):
    child = busy(roster)
    roster.next(child)
    current, ahead = run(), run(slot=None)
    roster.assign(current)
    child.queue.append(current.line)
    roster.line_up(child, ahead)
    assert roster.take_back(child) == [ahead, current]
    assert child.run is None
    assert roster.assign(run()) is child


def test_a_child_is_not_idle_that_took_the_second_when_the_first_was_taken_back(roster):
    child = busy(roster)
    roster.next(child)
    current, second, third = run(), run(slot=None), run(slot=None)
    roster.assign(current)
    child.queue.append(current.line)
    roster.line_up(child, second)
    roster.line_up(child, third)
    child.queue.remove(second.line)  # the first was gone already
    assert roster.take_back(child) == [third, current]
    assert (child.run, list(child.ahead)) == (None, [second])
    assert roster.assign(run()) is None
    assert roster.next(child) is second


def test_the_next_moment_to_look_is_a_deadline_or_when_something_has_waited_too_long(roster, clock):
    assert roster.look() == FOREVER
    child = busy(roster, timeout=timedelta(seconds=10))
    assert roster.is_late(child.run)
    assert roster.look() == clock.monotonic() + 10
    assert not roster.is_late(child.run)
    ahead = run(slot=None)
    roster.line_up(child, ahead)
    assert roster.is_late(ahead)
    assert roster.look() == clock.monotonic() + TAKEN_BACK_AFTER
    assert roster.overdue(clock.monotonic()) == []
    assert roster.overdue(clock.monotonic() + TAKEN_BACK_AFTER) == [child]


def test_a_deadline_is_due_once_and_ends_with_its_attempt(roster, clock):
    first = busy(roster, timeout=timedelta(seconds=1)).run
    second = busy(roster, timeout=timedelta(seconds=1)).run
    roster.is_over(second)
    assert roster.due(clock.monotonic()) == []
    assert roster.due(clock.monotonic() + 1) == [first]
    assert roster.due(clock.monotonic() + 1) == []


def test_a_child_is_given_up_once(roster):
    child = busy(roster)
    roster.next(child)
    roster.dismiss(child)
    assert not child.listened
    assert roster.assign(run()) is None
    assert roster.remove(child)
    assert not roster.remove(child)
