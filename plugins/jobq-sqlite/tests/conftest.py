"""Handles on SQLite stores in temporary homes."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import jobq_sqlite
from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new

(PROVIDER,) = jobq_sqlite.jobq_stores()


class Kit:
    """What the tests of the store do time and again."""

    def __init__(self, home, url=""):
        self.home, self.url = home, url
        self.path = home / (url or "queue.sqlite3")
        self.stores = []
        self.warned = []

    def open(self, **values):
        """A new handle."""
        context = replace(make_context(self.home, url=self.url), warn=self.warned.append)
        store = PROVIDER.make(make_settings(values=values), context)
        self.stores.append(store)
        return store

    def close(self):
        while self.stores:
            self.stores.pop().close()

    @staticmethod
    def add(store, *names, **fields):
        store.add(new(*(make_job(name, **fields) for name in names)), now=START)

    @staticmethod
    def work(store, kind=Kind.SUCCESS, limit=1, now=START):
        """Claim jobs and end them; their ids."""
        presence = store.join(make_info())
        claims = store.claim(presence, wanted=Wanted(), limit=limit, now=now).claims
        outcome = Outcome(kind=kind, reason="because", finished=now)
        ends = [Ended(each, lifecycle.after(each, outcome, now=now, delay=lambda *_: None)) for each in claims]
        assert not store.finish(presence, ends, now=now)
        presence.close()
        return [each.job.id for each in claims]

    @staticmethod
    def ids(store, **conditions):
        return [job.id for job in store.find(Query(**conditions))]

    def furnish(self):
        """A store with jobs that wait, are dead, are finished and have tags; their ids in the order of listings."""
        store = self.open()
        self.add(store, "done-1", "done-2", tags=("red", "blue"))
        self.work(store, limit=2)
        self.add(store, "dead")
        self.work(store, Kind.FAILURE)
        self.add(store, "mail", queue="mail", priority=3, handler="send", payload={"to": "é\n"})
        self.add(store, "one", "two", "three", tags=("red",))
        store.pause("mail", True, reason="later", now=START)
        listed = self.ids(store)
        assert store.check() == []
        return listed

    def sql(self, *statements):
        """Run statements on the database, as somebody else; what the last one answers."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                answer = connection.execute(statement).fetchall()
            return answer


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path / "home")
    yield made
    made.close()
