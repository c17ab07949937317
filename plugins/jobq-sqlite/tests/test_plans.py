"""How SQLite goes about what is asked of it: through an index each time, with nothing scanned and nothing sorted."""

import sqlite3

import pytest

from jobq.job import FINISHED, State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info
from jobq_sqlite.connecting import Lasting

SMALL = ("lanes", "paused", "damaged", "meta")
"""Tables with a row a queue, or fewer: they may be read as a whole."""


@pytest.fixture
def plans(kit, monkeypatch):
    """Plans of the statements that a call runs, each with the statement."""
    kit.furnish()
    kit.close()
    seen = []

    class Spying(Lasting):
        def execute(self, statement, *arguments):
            if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
                rows = sqlite3.Connection.execute(self, f"EXPLAIN QUERY PLAN {statement}", *arguments)
                seen.append((statement, [row[3] for row in rows]))
            return super().execute(statement, *arguments)

        def executemany(self, statement, arguments):
            for each in arguments:
                self.execute(statement, each)

    monkeypatch.setattr("jobq_sqlite.connecting.Lasting", Spying)

    def plans(act):
        store = kit.open()
        presence = store.join(make_info())
        act(store, presence)
        presence.close()
        on_jobs = [(text, plan) for text, plan in seen if not any(f" {name}" in text for name in SMALL)]
        assert on_jobs
        return on_jobs

    return plans


def check(plans):
    for statement, plan in plans:
        for step in plan:
            assert "TEMP B-TREE" not in step, statement
            assert not step.startswith("SCAN") or "USING" in step, statement


def test_a_claim_goes_through_the_index_of_what_waits(plans):
    found = plans(lambda store, presence: store.claim(presence, wanted=Wanted(), limit=9, now=START))
    check(found)
    looks = [plan for statement, plan in found if "run_at <=" in statement]
    assert looks
    for plan in looks:
        (step,) = plan
        assert step.startswith("SEARCH jobs USING INDEX waiting (state=? AND queue=? AND handler=? AND alone=?")


def test_what_is_due_next_is_the_first_in_the_index_of_what_waits(plans):
    found = plans(lambda store, _: store.next_due(Wanted(), now=START))
    check(found)
    assert all("USING COVERING INDEX waiting" in step for _, (step,) in found)


@pytest.mark.parametrize(
    "act",
    [
        lambda store, _: store.get("one"),
        lambda store, _: store.get_many(["one", "two"]),
        lambda store, _: store.delete([store.get("one")]),
        lambda store, _: store.counts(now=START),
        lambda store, worker: store.held(worker),
        lambda store, _: store.lost(now=START),
        lambda store, _: store.prune(states=FINISHED, before=START.replace(year=3000), limit=9),
        lambda store, _: list(store.find(Query(states=FINISHED, handler="h", since=START))),
        lambda store, _: list(store.find(Query(states=frozenset({State.DEAD})))),
        lambda store, _: list(store.find(Query(states=frozenset({State.PENDING})))),
    ],
)
def test_nothing_reads_or_sorts_all_jobs(plans, act):
    check(plans(act))


def test_what_does_not_match_a_search_is_passed_over_unread(plans):
    ((_, (step,)), *_) = plans(lambda store, _: list(store.find(Query(states=FINISHED, queue="mail"))))
    assert step == "SCAN jobs USING COVERING INDEX finished"
