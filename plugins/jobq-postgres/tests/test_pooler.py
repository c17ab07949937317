"""Behind a transaction pooler nothing may be kept with a session: workers poll there."""

import threading

import psycopg
import pytest

from jobq.errors import DuplicateJob
from jobq.job import Change, State
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, release, success

from .conftest import own_server, with_parameter
from .proxies import Proxy, as_pooler

NOTING = """
CREATE TABLE synced.noted (op text, said text);
CREATE FUNCTION synced.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO synced.noted VALUES (TG_OP, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON synced.jobs FOR EACH STATEMENT EXECUTE FUNCTION synced.note();
"""


def test_a_pooler_is_recognized_and_polled(open_on, proxy, proxied):
    proxy.rewrite = as_pooler
    store = open_on(address=proxied)
    worker = store.join(make_info())
    bell = threading.Event()
    assert store.watch(bell.set) is False
    assert store.remark() == "behind a pooler, so that workers poll"
    for number in range(12):
        store.add(new(make_job(f"j{number}")), now=START)
        finish(store, worker, *map(success, claim(store, worker)))
    assert store.counts(now=START).states[State.COMPLETED] == 12
    with store.line.use() as connection:
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    worker.die()
    assert bell.wait(10), "the death of a worker of this host is seen all the same"


@pytest.mark.parametrize(("durability", "said"), [("full", "on"), ("normal", "off")])
def test_commits_are_synced_whatever_the_server_does_by_default(open_on, durability, said):
    """Nothing can be said once for a session, so each transaction says it."""
    with own_server(synchronous_commit="off") as server:
        proxy = Proxy(server.port)
        try:
            proxy.rewrite = as_pooler
            address = with_parameter(server.url.replace(f":{server.port}/", f":{proxy.port}/"), "schema=synced")
            store = open_on(address=address, durability=durability)
            worker = store.join(make_info())
            with psycopg.connect(server.url, autocommit=True) as sql:
                sql.execute(NOTING)
                store.add(new(make_job("one"), make_job("two")), now=START)
                store.add(new(*(make_job() for _ in range(60))), now=START)
                one, two, *_ = claim(store, worker)
                finish(store, worker, success(one), release(two))
                store.change(store.get("two"), Change({"priority": 3}), now=START)
                store.delete([store.get("two")])
                noted = sql.execute("SELECT DISTINCT op, said FROM synced.noted ORDER BY 1").fetchall()
            assert noted == [("DELETE", said), ("INSERT", said), ("UPDATE", said)]
            worker.close()
        finally:
            proxy.close()


def test_a_transaction_of_the_application_needs_no_second_connection_at_once(open_on, proxy, proxied, server_url):
    """Where all that a pooler has are taken by such transactions, each would wait for another one to be over."""
    proxy.rewrite = as_pooler
    store = open_on(address=proxied)
    with psycopg.connect(server_url) as application:
        store.add_within(application, new(make_job("one")), now=START)
        application.commit()
        proxy.stall()
        store.add_within(application, new(make_job("two")), now=START)
        with pytest.raises(DuplicateJob):
            store.add_within(application, new(make_job("one")), now=START)
        application.commit()
    proxy.go_on()
    assert store.get_many(["one", "two"]).keys() == {"one", "two"}


def test_without_one_the_server_is_listened_to(open_on):
    store, other = open_on(), open_on("other")
    bell = threading.Event()
    assert store.watch(bell.set) is True
    assert store.remark() == ""
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
