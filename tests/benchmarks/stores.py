"""The JSON store and a SQLite database (WAL) that does the same work, for the drivers that look below the queue."""

from __future__ import annotations

import json
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jobq_json
from jobq.executor import Kind, Outcome
from jobq.job import Job, new_id
from jobq.lifecycle import after
from jobq.store import Ended, NewJob, Wanted
from jobq.testing import make_context, make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NOW = datetime(2026, 7, 11, 20, 57, 58, 316000, tzinfo=UTC)
INSERT = "INSERT INTO jobs (id, state, queue, priority, run_at, record) VALUES (?, ?, ?, ?, ?, ?)"


def open_json(home: Path, durability: str = "full") -> Any:
    """The JSON store of a home."""
    (provider,) = jobq_json.jobq_stores()
    return provider.make(make_settings(values={"durability": durability}), make_context(home))


def open_sqlite(home: Path, durability: str = "full") -> sqlite3.Connection:
    """A table of jobs with what claiming needs, in a directory of its own."""
    home.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(home / "queue.db", isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS jobs (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, state TEXT, queue TEXT,"
        " priority INT, run_at TEXT, record TEXT)"
    )
    connection.execute("CREATE INDEX IF NOT EXISTS due ON jobs (state, queue, priority DESC, run_at, seq)")
    return connection


def new_job(job_id: str | None = None) -> NewJob:
    """A job whose line in the store has about 300 bytes, with an id made here or chosen."""
    made = Job(
        id=job_id or new_id(),
        command="convert in-0000000.png out.png",
        cwd="/home/me/in",
        env={"PATH": "/usr/bin:/bin"},
        run_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return NewJob(made, generated=job_id is None)


def new_jobs(count: int) -> list[NewJob]:
    """So many of them, with ids made here."""
    return [new_job() for _ in range(count)]


def sqlite_row(new: NewJob) -> tuple[Any, ...]:
    """A job as `INSERT` takes it."""
    record = new.job.record()
    text = json.dumps(record, separators=(",", ":"))
    return new.job.id, new.job.state.value, new.job.queue, new.job.priority, record["run_at"], text


def sqlite_add(connection: sqlite3.Connection, new: Sequence[NewJob]) -> None:
    """Add jobs in one transaction."""
    sqlite_insert(connection, list(map(sqlite_row, new)))


def sqlite_insert(connection: sqlite3.Connection, made: Sequence[tuple[Any, ...]]) -> None:
    """Add what `sqlite_row` made, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, made)
    connection.execute("COMMIT")


def fill(home: Path, count: int) -> None:
    """A home with so many live jobs in either form, the JSON one right after a compaction."""
    store, connection = open_json(home, "normal"), open_sqlite(home, "normal")
    for start in range(0, count, 1000):
        new = [new_job(f"job-{number:07}") for number in range(start, min(count, start + 1000))]
        store.add([NewJob(each.job, generated=True) for each in new], now=NOW)
        sqlite_add(connection, new)
    assert store.access.compact()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    connection.close()


def work(store: Any, presence: Any, count: int) -> None:
    """Claim and complete so many jobs, ten at a time."""
    outcome = Outcome(kind=Kind.SUCCESS, exit_code=0, finished=NOW)
    ended: list[Ended] = []
    done = 0
    while done < count:
        claimed = store.claim(presence, wanted=Wanted(), limit=min(10, count - done), now=NOW, ended=ended)
        ended = [Ended(claim, after(claim, outcome, now=NOW, delay=lambda *_: None)) for claim in claimed.claims]
        done += len(claimed.claims)
    store.finish(presence, ended, now=NOW)


def sqlite_work(connection: sqlite3.Connection, count: int) -> None:
    """The same with SQLite: what ended and the next ten in one transaction."""
    held: list[tuple[str, int]] = []
    done = 0
    while done < count or held:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("UPDATE jobs SET state = 'completed', record = ? WHERE seq = ?", held)
        taken = connection.execute(
            "SELECT seq, record FROM jobs WHERE state = 'pending' AND queue = 'default'"
            " ORDER BY state, queue, priority DESC, run_at, seq LIMIT ?",
            (min(10, count - done),),
        ).fetchall()
        held = []
        for seq, text in taken:
            record = json.loads(text)
            record["state"] = "processing"
            connection.execute(
                "UPDATE jobs SET state = 'processing', record = ? WHERE seq = ?", (json.dumps(record), seq)
            )
            record["state"] = "completed"
            held.append((json.dumps(record), seq))
        connection.execute("COMMIT")
        done += len(taken)


def rate(count: int, act: Callable[..., object], *arguments: Any) -> float:
    """How many a second an act does that does `count`."""
    start = time.perf_counter()
    act(*arguments)
    return count / (time.perf_counter() - start)
