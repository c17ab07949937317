"""Behind a transaction pooler nothing may be kept with a session: workers poll there."""

import threading

from jobq.job import State
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, success

from .proxies import as_pooler


def test_a_pooler_is_recognized_and_polled(open_on, proxy, proxied):
    proxy.rewrite = as_pooler
    store = open_on(address=proxied)
    worker = store.join(make_info())
    bell = threading.Event()
    assert store.watch(bell.set) is False
    for number in range(12):
        store.add(new(make_job(f"j{number}")), now=START)
        finish(store, worker, *map(success, claim(store, worker)))
    assert store.counts(now=START).states[State.COMPLETED] == 12
    with store.line.use() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    worker.die()
    assert bell.wait(10), "the death of a worker of this host is seen all the same"


def test_without_one_the_server_is_listened_to(open_on):
    store, other = open_on(), open_on("other")
    bell = threading.Event()
    assert store.watch(bell.set) is True
    other.add(new(make_job("one")), now=START)
    assert bell.wait(10)


def test_listening_is_taken_up_again_after_a_loss(open_on, sql, schema):
    store, other = open_on(), open_on("other")
    bell = threading.Event()
    store.watch(bell.set)
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jobq watch'")
    assert bell.wait(20), "for whatever was missed"
    bell.clear()
    other.add(new(make_job("one")), now=START)
    assert bell.wait(20)
