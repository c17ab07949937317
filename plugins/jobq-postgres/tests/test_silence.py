"""What a client that falls silent holds at the server is let go before others have to wait for it."""

import threading
import time

import pytest

from jobq.errors import StoreError
from jobq.job import State
from jobq.members import WorkerInfo
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, ids, success

WITHIN = 30.0


@pytest.fixture
def silent(open_on, proxy, proxied):
    """A handle that falls silent once the server has answered the next thing that it begins; the server goes on hearing
    that its system is there."""
    store = open_on("silent", address=proxied, lease=3)

    def fall_silent():
        def answered(data):
            proxy.stall()
            return data

        proxy.rewrite = answered

    store.fall_silent = fall_silent
    yield store
    proxy.go_on()


def elsewhere() -> WorkerInfo:
    return make_info(boot_id="another-boot", host="elsewhere")


def in_background(act):
    """Start what waits for an answer that does not come."""

    def run():
        try:
            act()
        except StoreError:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def persistently(act):
    end = time.monotonic() + WITHIN
    while not (answer := act()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return answer


def test_what_it_was_about_to_claim_can_be_claimed(silent, open_on):
    near = open_on("near", lease=3)
    worker, colleague = near.join(elsewhere()), near.join(make_info())
    near.add(new(make_job("one")), now=START)
    silent.get("one")
    silent.fall_silent()
    thread = in_background(lambda: claim(silent, worker))
    assert ids(persistently(lambda: claim(near, colleague))) == ["one"]
    silent.line.cut()
    thread.join(WITHIN)
    worker.close()
    colleague.close()


def test_what_it_was_about_to_end_can_be_given_to_another(silent, open_on):
    near = open_on("near", lease=3)
    worker, colleague = near.join(elsewhere()), near.join(make_info())
    near.add(new(make_job("one")), now=START)
    (held,) = claim(near, worker)
    silent.get("one")
    silent.fall_silent()
    thread = in_background(lambda: finish(silent, worker, success(held)))
    ended = threading.Event()
    other = in_background(lambda: (finish(near, worker, success(held)), ended.set()))
    assert ended.wait(WITHIN), "who ends the same job waits no longer than the silence is allowed to last"
    other.join(WITHIN)
    assert near.get("one").state is State.COMPLETED
    silent.line.cut()
    thread.join(WITHIN)
    worker.close()
    colleague.close()
