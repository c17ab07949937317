"""A worker goes on at its rate while another session holds an old snapshot, for as long as a report may take."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median

import psycopg
import pytest

from jobq.job import State
from jobq.testing import START, make_job, new

from .conftest import own_server, with_parameter
from .sizes import AROUND, BUCKET, FULL, HELD

FEWEST, MOST = 500, 5000
"""How many jobs wait, as long as the enqueuer keeps up and its transactions last less than a hundredth of a second."""

BATCH, SCHEDULED = 1000, 10
"""Jobs that are added at once: due ones, and such as wait until the next day, behind which others are claimed."""

LOOK = 0.02
"""Seconds between two looks at how many wait."""

WITHIN = 60.0

CONFIG = """
store = "{url}"
handlers-path = ["."]
[handlers]
nothing = "trivial:nothing"
"""


@pytest.mark.timeout(HELD + 4 * AROUND + 300)
def test_throughput_holds_while_a_session_holds_an_old_snapshot(tmp_path, open_on, figure):
    """Jobs are claimed and completed all the time, and nothing of what they left can be cleared away."""
    with ExitStack() as stack:
        server = stack.enter_context(own_server())
        address = with_parameter(server.url, "schema=busy")
        sql = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        feeder = stack.enter_context(feeding(open_on(address=address), sql))
        stack.enter_context(working(tmp_path, address, count=2))
        assert eventually(lambda: ended(sql) > FEWEST), "it works"
        meter = Meter(sql, feeder)
        before = meter.watch(AROUND)
        sizes = {"when it began": on_disk(sql)}
        with psycopg.connect(server.url) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.execute("SELECT count(*) FROM busy.jobs")
            during = meter.watch(HELD)
            sizes["when it ended"] = on_disk(sql)
        after = meter.watch(AROUND)
        sizes["after it"] = on_disk(sql)
        added = feeder.stop()
        assert eventually(lambda: ended(sql) >= added), "all come to an end"
        store = open_on("other", address=address)
        expected = dict.fromkeys(State, 0) | {State.COMPLETED: added, State.PENDING: feeder.scheduled}
        assert eventually(lambda: store.counts(now=START).states == expected), "each once"
        assert store.check() == []
    rates = {
        "before": median(before),
        "first minute": median(during[: 60 // BUCKET]),
        "last minute": median(during[-60 // BUCKET :]),
        "after": median(after),
    }
    parts = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    grown = "; ".join(f"{name}: {told}" for name, told in sizes.items())
    figure(
        "an old snapshot",
        f"held for {HELD} s, {added:,} jobs, beside {feeder.scheduled:,} scheduled; jobs/s in {BUCKET} s, median: {parts}; "
        f"slowest and quickest while it was held: {min(during):,.0f}, {max(during):,.0f}; {feeder.fewest:,} to "
        f"{feeder.most:,} waiting; {grown}",
    )
    runs = (("before", before), ("while it was held", during), ("after", after))
    parts = "; ".join(f"{name} {' '.join(f'{rate:.0f}' for rate in rates_)}" for name, rates_ in runs)
    figure(f"an old snapshot, jobs/s in each {BUCKET} s", parts)
    if FULL:
        assert feeder.fewest > 0, "the queue was never empty"
        assert rates["last minute"] > 0.7 * rates["before"]
        assert rates["after"] > 0.7 * rates["before"]
        assert min(during) > 0.4 * rates["before"], "no stall"
    else:
        assert sum(during) > 0, "how fast depends on what else the machine does"


class Meter:
    """Counts what ends, by the sequence that numbers it: to ask it costs nothing, however much there is."""

    def __init__(self, sql, feeder):
        self._sql, self._feeder = sql, feeder

    def watch(self, seconds):
        """Jobs a second, in each bucket of these seconds."""
        rates, last, began = [], ended(self._sql), time.monotonic()
        for number in range(1, seconds // BUCKET + 1):
            self._feeder.wait(began + number * BUCKET - time.monotonic())
            now, then = ended(self._sql), time.monotonic()
            rates.append((now - last) / (then - began - (number - 1) * BUCKET))
            last = now
        return rates


class Feeder:
    """Keeps a number of jobs waiting, from a thread.

    Attributes:
        fewest, most: how many waited, at any look.
        scheduled: how many more were added that are not due in all this time.
    """

    def __init__(self, store, sql):
        self._store, self._sql, self._added, self.scheduled = store, sql, 0, 0
        self._later = datetime.now(UTC) + timedelta(days=1)
        self.fewest, self.most = MOST, 0
        self._over = threading.Event()
        self._trouble = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self, seconds):
        """Return after so long; raises what the thread has met."""
        self._over.wait(seconds)
        if self._trouble is not None:
            raise self._trouble

    def stop(self):
        """Add no more; how many were added."""
        self._over.set()
        self._thread.join()
        self.wait(0)
        return self._added

    def _run(self):
        try:
            with psycopg.connect(self._sql.info.dsn, password=self._sql.info.password, autocommit=True) as own:
                while not self._over.is_set():
                    waiting = self._added - ended(own)
                    if self._added >= MOST:
                        self.fewest, self.most = min(self.fewest, waiting), max(self.most, waiting)
                    if waiting > MOST - BATCH:
                        self._over.wait(LOOK)
                        continue
                    jobs = [make_job(f"j{self._added + n}", handler="nothing", payload=None) for n in range(BATCH)]
                    jobs += [make_job(run_at=self._later, handler="nothing", payload=None) for _ in range(SCHEDULED)]
                    self._store.add(new(*jobs, generated=True), now=START)
                    self._added += BATCH
                    self.scheduled += SCHEDULED
        except BaseException as trouble:
            self._trouble = trouble
            self._over.set()


@contextmanager
def feeding(store, sql):
    store.get_many(["none"])  # the schema is made
    feeder = Feeder(store, sql)
    try:
        yield feeder
    finally:
        feeder._over.set()
        feeder._thread.join()


@contextmanager
def working(directory, address, *, count):
    """A worker in a process of its own, with handlers that return at once."""
    home = directory / "worker"
    home.mkdir(mode=0o700)
    (directory / "trivial.py").write_text("def nothing(job, context):\n    pass\n")
    (home / "config.toml").touch(mode=0o600)
    (home / "config.toml").write_text(CONFIG.format(url=address))
    command = [sys.executable, "-m", "jobq", "--quiet", "worker", "start", "--count", str(count)]
    with open(directory / "worker.log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=directory, env=os.environ | {"JOBQ_HOME": str(home)}, stdout=log, stderr=log
        )
    try:
        yield process
        assert process.poll() is None, (directory / "worker.log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(WITHIN) == 0, (directory / "worker.log").read_text()
        assert (directory / "worker.log").read_text() == ""
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ended(sql):
    """How many jobs came to an end so far; of a few of them the transaction may still be under way."""
    ((number,),) = sql.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM busy.ends").fetchall()
    return number


def on_disk(sql):
    """What the tables take, with their indexes."""
    ((waiting, index, archive, tally),) = sql.execute(
        "SELECT pg_total_relation_size('busy.jobs'), pg_relation_size('busy.jobs_waiting'), "
        "(SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('busy.archive')), "
        "pg_total_relation_size('busy.tally')"
    ).fetchall()
    parts = {"jobs": waiting, "of it jobs_waiting": index, "archive": archive, "tally": tally}
    return ", ".join(f"{name} {size / (1 << 20):,.1f} MiB" for name, size in parts.items())


def eventually(condition):
    end = time.monotonic() + WITHIN
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
