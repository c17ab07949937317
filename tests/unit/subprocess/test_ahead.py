"""Which jobs are sent ahead, and where to."""

from datetime import timedelta

import pytest

from jobq.testing import make_job
from jobq_subprocess.ahead import LARGEST_PAYLOAD, Means, Places, Room


def known(**seconds):
    means = Means()
    for handler, mean in seconds.items():
        means.note(handler, mean)
    return means


def taken(places, jobs):
    return [places.of(job) for job in jobs if places.take(job)]


def jobs(count, handler="h", **fields):
    return [make_job(handler=handler, **fields) for _ in range(count)]


def test_as_many_as_are_finished_in_the_time():
    places = Places(known(h=0.001), [Room("a", 0.005, 32)])
    assert places.most == 32
    assert taken(places, jobs(10)) == ["a"] * 5


def test_no_more_than_the_count():
    assert taken(Places(known(h=0.0), [Room("a", 0.005, 3), Room("b", 0.001, 2)]), jobs(10)) == [
        "a",
        "a",
        "a",
        "b",
        "b",
    ]


def test_one_child_after_the_other_is_filled():
    places = Places(known(h=0.001), [Room("a", 0.0025, 9), Room("b", 0.0005, 9), Room("c", 0.004, 3)])
    assert taken(places, jobs(9)) == ["a", "a", "c", "c", "c"]


def test_a_handler_not_yet_seen_has_no_place():
    places = Places(known(h=0.001), [Room("a", 0.005, 32)])
    assert not places.take(make_job(handler="other"))
    assert not places.take(make_job(command="true"))
    assert places.of(make_job(handler="other")) is None


def test_a_slow_handler_has_no_place_before_a_quick_one():
    places = Places(known(slow=0.1, quick=0.001), [Room("a", 0.005, 32)])
    assert not places.take(make_job(handler="slow"))
    assert places.take(make_job(handler="quick"))


@pytest.mark.parametrize(
    ("fields", "fit"),
    [
        ({}, True),
        ({"losses": 1}, False),
        ({"timeout": timedelta(seconds=0.999)}, False),
        ({"timeout": timedelta(seconds=1)}, True),
        ({"payload": {}}, True),
        ({"payload": "x" * (LARGEST_PAYLOAD - 2)}, True),
        ({"payload": "x" * (LARGEST_PAYLOAD - 1)}, False),
        ({"attempts": 2}, True),
    ],
)
def test_what_is_fit(fields, fit):
    places = Places(known(h=0.001), [Room("a", 0.005, 32)])
    assert places.take(make_job(handler="h", **fields)) is fit


def test_without_room_there_is_none():
    places = Places(known(h=0.001), [Room("a", 0.0, 32), Room("b", -1.0, 1), Room("c", 0.005, 0)])
    assert places.most == 0
    assert not places.take(make_job(handler="h"))


def test_a_mean_follows_what_is_measured():
    means = known(h=0.001)
    assert means.of("h") == 0.001
    assert means.of("other") is None
    assert means.of(None) is None
    for _ in range(50):
        means.note("h", 0.1)
    assert means.of("h") == pytest.approx(0.1, rel=0.01)
