"""Handles on JSON stores in temporary homes, and stores with something in every file."""

from dataclasses import replace

import pytest

import jobq_json
from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new

(PROVIDER,) = jobq_json.jobq_stores()


class Kit:
    """What the tests of the JSON store do time and again."""

    START = START

    def __init__(self, home):
        self.home = home
        self.queue = home / "queue"
        self.stores = []
        self.warned = []

    def open(self, **values):
        """A new handle."""
        context = replace(make_context(self.home), warn=self.warned.append)
        store = PROVIDER.make(make_settings(values=values), context)
        self.stores.append(store)
        return store

    def close(self):
        for store in self.stores:
            store.close()

    @staticmethod
    def compact(store):
        assert store.access.compact()

    @staticmethod
    def add(store, *names, now=START, **fields):
        store.add(new(*(make_job(name, **fields) for name in names)), now=now)

    @staticmethod
    def work(store, kind=Kind.SUCCESS, limit=1, now=START, queues=None):
        """Claim jobs and end them; their ids."""
        presence = store.join(make_info())
        claims = store.claim(presence, wanted=Wanted(queues=queues), limit=limit, now=now).claims
        outcome = Outcome(kind=kind, reason="because", finished=now)
        ends = [Ended(each, lifecycle.after(each, outcome, now=now, delay=lambda *_: None)) for each in claims]
        assert not store.finish(presence, ends, now=now)
        presence.close()
        return [each.job.id for each in claims]

    @staticmethod
    def jobs(store):
        return list(store.find(Query()))

    @staticmethod
    def overwrite(path, data):
        """Give a file other content in place: to truncate it to nothing first would make the system sync it."""
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()

    def file(self, kind):
        """The one data file of a kind."""
        (path,) = self.queue.glob(f"{kind}-*.jsonl")
        return path

    def journal(self):
        """What the journal holds, without room."""
        return self.file("journal").read_bytes().rstrip(b"\0")

    def write_behind(self, data):
        """Write to the journal as a process does that is killed, or knows nothing of room."""
        end = len(self.journal())
        with self.file("journal").open("r+b") as file:
            file.seek(end)
            file.write(data)

    def furnish(self):
        """A store that has jobs in every state, in the sorted run, the journal and the archive; all that was shown."""
        store = self.open()
        shown = []

        def look():
            shown.extend(self.jobs(store))

        self.add(store, "one", "two", "three")
        self.add(store, "mail", queue="mail", priority=3, handler="send", payload={"to": "é\n"})
        look()
        self.work(store, queues=("default",))
        look()
        self.work(store, Kind.FAILURE, queues=("default",))
        look()
        self.compact(store)
        self.add(store, "four", "five")
        look()
        presence = store.join(make_info("worker"))
        (claim,) = store.claim(presence, wanted=Wanted(queues=("default",)), limit=1, now=START).claims
        presence.close()
        look()
        store.change(claim.job, lifecycle.cancel(claim.job, now=START), now=START)
        store.change(store.get("five"), lifecycle.cancel(store.get("five"), now=START), now=START)
        store.pause("mail", True, reason="later", now=START)
        look()
        store.close()
        return shown


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path / "home")
    yield made
    made.close()
