"""How fast jobs are enqueued: one by one, each durable before the next, and very many at once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import queues
import stores
from measuring import environ, figure, in_new_process, in_turn, ratio, row
from stores import rate

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Bench, Row

ADDED = 2_000
BULK = 200_000
PENDING = (100_000, 1_000_000)


def rows(bench: Bench) -> Iterator[Row]:
    """One by one into an empty queue and into full ones, then in bulk."""
    yield from singly(bench)
    yield from in_bulk(bench)


def singly(bench: Bench) -> Iterator[Row]:
    """`Queue.enqueue` beside the same bytes appended and synced, beside SQLite, and beside itself with jobs pending."""
    count = bench.size(ADDED, 200)
    pending = [bench.size(size, size // 100) for size in PENDING]
    homes = {size: queues.new_home(bench.new("adding")) for size in (0, *pending)}
    for size, home in homes.items():
        queues.fill(home, size)
        if size:
            stores.open_json(home).access.compact()
    line = b"x" * (bytes_a_job(bench.new("sizing")) - 1) + b"\n"
    database = stores.open_sqlite(bench.new("sqlite"))
    acts: dict[Any, Any] = {size: lambda home=home: enqueue_singly(home, count) for size, home in homes.items()}
    acts["append"] = lambda: append_singly(bench.new("append") / "file", line, count)
    acts["sqlite"] = lambda: insert_singly(database, count)
    rounds = bench.rounds(7)
    taken = in_turn(acts, rounds)
    database.close()
    common = {
        "unit": "jobs/s",
        "better": "higher",
        "settings": {"count": count, "rounds": rounds, "durability": "full", "bytes": len(line)},
    }
    what, floor = "Queue.enqueue, one by one, durable", "append + fdatasync of as much"
    yield row("enqueueing.one", what, taken[0], floor=floor, beside=taken["append"], target=ratio(0.65), **common)
    floor = "SQLite WAL FULL, an insert each"
    yield row("enqueueing.one.sqlite", what, taken[0], floor=floor, beside=taken["sqlite"], target=ratio(0.9), **common)
    for size in pending:
        beside = {"floor": "the same with none pending", "beside": taken[0], "target": ratio(0.9)}
        yield row(f"enqueueing.one.{size}", f"the same, {size:,} pending", taken[size], **beside, **common)


def bytes_a_job(directory: Path) -> int:
    """How many bytes a job that is enqueued alone takes in the store's journal."""
    home = queues.new_home(directory)
    sizes = []
    with Queue.open(home=home) as queue:
        for number in range(2):
            queue.enqueue(**queues.spec(number))
            sizes.append(sum(path.stat().st_size for path in (home / "queue").glob("journal-*")))
    return sizes[1] - sizes[0]


def enqueue_singly(home: Path, count: int) -> float:
    """Jobs a second."""
    fields = queues.specs(count)
    with Queue.open(home=home) as queue:
        queue.enqueue(command="true")  # what opening costs is another row's

        def enqueue() -> None:
            for each in fields:
                queue.enqueue(**each)

        return rate(count, enqueue)


def append_singly(path: Path, line: bytes, count: int) -> float:
    """Lines a second."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append() -> None:
        for _ in range(count):
            os.write(file, line)
            os.fdatasync(file)

    try:
        return rate(count, append)
    finally:
        os.close(file)


def insert_singly(database: Any, count: int) -> float:
    """Rows a second, each a transaction; the rows are made before."""
    made = list(map(stores.sqlite_row, stores.new_jobs(count)))

    def insert() -> None:
        for each in made:
            database.execute(stores.INSERT, each)

    return rate(count, insert)


def in_bulk(bench: Bench) -> Iterator[Row]:
    """`Queue.enqueue_many` and `jobq enqueue -`, checked and durable, beside SQLite in one transaction."""
    count = bench.size(BULK, BULK // 20)
    text = bench.new("lines") / "jobs.jsonl"
    text.write_text("".join(json.dumps(each) + "\n" for each in queues.specs(count)), encoding="utf-8")

    def enqueue_lines() -> float:
        command = queues.command(queues.new_home(bench.new("bulk")), "enqueue", "-")
        with text.open("rb") as lines:
            return rate(count, lambda: _run(command, lines))

    acts = {
        "many": lambda: in_new_process(enqueue_many, queues.new_home(bench.new("bulk")), count),
        "lines": enqueue_lines,
        "sqlite": lambda: in_new_process(insert_many, bench.new("bulk"), count),
    }
    rounds = bench.rounds(3)
    taken = in_turn(acts, rounds)
    common = {
        "unit": "jobs/s",
        "better": "higher",
        "floor": "SQLite, one transaction of rows ready made",
        "beside": taken["sqlite"],
        "settings": {"count": count, "rounds": rounds, "durability": "full"},
    }
    what = f"Queue.enqueue_many of {count:,}, checked and durable"
    yield row("enqueueing.many", what, taken["many"], target=figure(80_000), **common)
    what = f"jobq enqueue - of {count:,} lines, a whole process"
    yield row("enqueueing.lines", what, taken["lines"], target=figure(50_000), **common)


def enqueue_many(home: str, count: int) -> float:
    """Jobs a second; in a new process."""
    fields = queues.specs(count)
    with Queue.open(home=home) as queue:
        queue.enqueue(command="true")
        return rate(count, queue.enqueue_many, fields)


def insert_many(directory: str, count: int) -> float:
    """Rows a second, made before; in a new process."""
    made = list(map(stores.sqlite_row, stores.new_jobs(count)))
    return rate(count, stores.sqlite_insert, stores.open_sqlite(Path(directory)), made)


def _run(command: list[str], lines: Any) -> None:
    subprocess.run(command, env=environ(), check=True, stdin=lines, stdout=subprocess.DEVNULL)
