"""The JSON store below the queue: replaying, adding, claiming and pruning, with SQLite doing the same work."""

from __future__ import annotations

import json
import multiprocessing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stores
from measuring import figure, in_new_process, in_turn, row, seconds
from stores import NOW, new_job, new_jobs, rate

from jobq.job import State
from jobq.lifecycle import cancel
from jobq.testing import make_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from measuring import Bench, Row

    from jobq.store import NewJob

SQLITE = "SQLite WAL, the same work"
PER_SECOND = {"unit": "jobs/s", "better": "higher", "floor": SQLITE}


def rows(bench: Bench) -> Iterator[Row]:
    """What `growing` and `enqueueing` do not show."""
    yield from replaying(bench)
    yield from adding(bench)
    yield from in_thousands(bench)
    yield from working(bench)
    yield from pruning(bench)


def replaying(bench: Bench) -> Iterator[Row]:
    """What the first reader pays for a journal that nobody has compacted yet, by the MB."""
    for name, what, fill in (
        ("adds", "replay of added jobs", _add_10_000),
        ("work", "replay of claims and ends", _work_2_500),
    ):
        home = bench.new("replay")
        path = Path(fill(home))
        size = path.stat().st_size / 1e6
        taken = in_turn(
            {
                "counts": partial(in_new_process, counted, home),
                "parse": partial(in_new_process, parsed, path),
            },
            bench.rounds(9),
        )
        yield row(
            f"json_store.replay.{name}",
            f"{what}, a MB of journal",
            [one / size for one in taken["counts"]],
            unit="ms",
            better="lower",
            floor="json.loads of each line",
            beside=[one / size for one in taken["parse"]],
            target=figure(30),
            settings={"journal": f"{size:.2f} MB"},
        )


def _add_10_000(home: Path) -> str:
    """Leave a journal of 10,000 new jobs; its path."""
    store = stores.open_json(home, "normal")
    for _ in range(10):
        store.add(new_jobs(1000), now=NOW)
    return _journal(home)


def _work_2_500(home: Path) -> str:
    """Leave a journal of 2,500 jobs claimed and done, as much as is replayed before a compaction; its path."""
    store = stores.open_json(home, "normal")
    presence = store.join(make_info())
    store.add(new_jobs(2500), now=NOW)
    assert store.access.compact()
    stores.work(store, presence, 2500)
    presence.close()
    return _journal(home)


def _journal(home: Path) -> str:
    (path,) = (home / "queue").glob("journal-*")
    return str(path)


def counted(home: str) -> float:
    """Milliseconds of opening and counting; in a new process."""
    import jobq_json.view  # noqa: F401  # its import is not what is measured

    store = stores.open_json(Path(home))
    return 1000 * seconds(store.counts, now=NOW)


def parsed(path: str) -> float:
    """Milliseconds of reading a file of JSON lines; in a new process."""

    def parse() -> None:
        with open(path, "rb") as lines:
            for line in lines:
                json.loads(line)

    return 1000 * seconds(parse)


def adding(bench: Bench) -> Iterator[Row]:
    """One by one and durable, by one process and by four."""
    count = bench.size(4000, 400)
    for processes, bound in ((1, 4000), (4, 5000)):
        acts = {kind: partial(_added, bench, kind, processes, count) for kind in ("json", "sqlite")}
        rounds = bench.rounds(3)
        taken = in_turn(acts, rounds)
        yield row(
            f"json_store.adding.{processes}",
            f"durable adds one by one, {processes} process{'es' if processes > 1 else ''}",
            taken["json"],
            beside=taken["sqlite"],
            target=figure(bound),
            settings={"count": count, "processes": processes, "rounds": rounds, "durability": "full"},
            **PER_SECOND,
        )


def _added(bench: Bench, kind: str, processes: int, count: int) -> float:
    home = bench.new("adding")
    stores.open_json(home).add([new_job()], now=NOW)
    stores.open_sqlite(home).close()
    method = multiprocessing.get_context("spawn")
    gate = method.Barrier(processes + 1)
    running = [method.Process(target=add_singly, args=(home, kind, count // processes, gate)) for _ in range(processes)]
    for each in running:
        each.start()
    gate.wait(60)

    def join() -> None:
        for each in running:
            each.join()

    speed = rate(count // processes * processes, join)
    assert not any(each.exitcode for each in running)
    return speed


def add_singly(home: Path, kind: str, count: int, gate: Any) -> None:
    """Add jobs one by one as soon as all are ready; in a new process."""
    store = stores.open_json(home) if kind == "json" else stores.open_sqlite(home)
    jobs = new_jobs(count)
    gate.wait(60)
    for each in jobs:
        if kind == "json":
            store.add([each], now=NOW)
        else:
            stores.sqlite_add(store, [each])


def in_thousands(bench: Bench) -> Iterator[Row]:
    """Durable batches of a thousand, compaction included, with ids made by jobq and with such as somebody chose."""
    count = bench.size(40_000, 4_000)
    for own in (False, True):
        home = bench.new("thousands")
        store, database = stores.open_json(home), stores.open_sqlite(home)
        rounds = bench.rounds(5)
        made = [
            [new_job(f"bulk-{turn}-{number}" if own else None) for number in range(count)] for turn in range(rounds)
        ]
        left = {"json": iter(made), "sqlite": iter(made)}
        add: dict[str, Callable[[Sequence[NewJob]], object]] = {
            "json": partial(store.add, now=NOW),
            "sqlite": partial(stores.sqlite_add, database),
        }

        def batches(kind: str, left: Any = left, add: Any = add) -> float:
            jobs = next(left[kind])
            parts = [jobs[start : start + 1000] for start in range(0, count, 1000)]
            return rate(count, lambda: [add[kind](part) for part in parts])

        taken = in_turn({kind: partial(batches, kind) for kind in add}, rounds)
        database.close()
        store.close()
        yield row(
            f"json_store.thousands.{'own' if own else 'made'}",
            f"durable adds in thousands, ids {'of the caller' if own else 'made by jobq'}",
            taken["json"],
            beside=taken["sqlite"],
            target=figure(80_000),
            settings={"count": count, "rounds": rounds, "durability": "full"},
            **PER_SECOND,
        )


def working(bench: Bench) -> Iterator[Row]:
    """Claim and complete in tens, what ended and the next claim in one transaction."""
    count, rounds = bench.size(10_000, 1_000), bench.rounds(5)
    for durability, bound in (("normal", 30_000), ("full", 14_000)):
        home = bench.new("working")
        store, database = stores.open_json(home, durability), stores.open_sqlite(home, durability)
        for _ in range(count * rounds // 1000):
            new = new_jobs(1000)
            store.add(new, now=NOW)
            stores.sqlite_add(database, new)
        assert store.access.compact()
        presence = store.join(make_info())
        acts = {
            "json": partial(rate, count, stores.work, store, presence, count),
            "sqlite": partial(rate, count, stores.sqlite_work, database, count),
        }
        taken = in_turn(acts, rounds)
        presence.close()
        database.close()
        yield row(
            f"json_store.working.{durability}",
            f"claim + finish in tens, {durability}",
            taken["json"],
            beside=taken["sqlite"],
            target=figure(bound),
            settings={"count": count, "rounds": rounds, "durability": durability},
            **PER_SECOND,
        )


def pruning(bench: Bench) -> Iterator[Row]:
    """Delete completed jobs in thousands, also where as many cancelled ones that stay lie in between."""
    count = bench.size(100_000, 2_000)
    for name, between in (("all", False), ("between", True)):
        home = bench.new("pruning")
        store = stores.open_json(home, "normal")
        database = stores.open_sqlite(home)
        presence = store.join(make_info())
        for _ in range(count // 1000):
            new = new_jobs(1000)
            store.add(new, now=NOW)
            stores.work(store, presence, 1000)
            stores.sqlite_add(database, new)
            database.execute("UPDATE jobs SET state = 'completed' WHERE state = 'pending'")
            if between:
                other = new_jobs(1000)
                store.add(other, now=NOW)
                for each in other:
                    store.change(each.job, cancel(each.job, now=NOW), now=NOW)
                stores.sqlite_add(database, other)
                database.execute("UPDATE jobs SET state = 'cancelled' WHERE state = 'pending'")
        presence.close()
        store.access.compact()
        store.close()
        ours = seconds(_prune, stores.open_json(home), count)
        theirs = seconds(_sqlite_prune, database, count)
        database.close()
        yield row(
            f"json_store.pruning.{name}",
            f"prune {count:,} in thousands{', as many cancelled in between' if between else ''}",
            [ours],
            unit="s",
            better="lower",
            floor=SQLITE,
            beside=[theirs],
            target=figure(5),
            settings={"count": count, "durability": "full"},
        )


def _prune(store: Any, count: int) -> None:
    pruned = 0
    while ids := store.prune(states=frozenset({State.COMPLETED}), before=NOW + timedelta(days=1), limit=1000):
        pruned += len(ids)
    assert pruned == count


def _sqlite_prune(database: Any, count: int) -> None:
    delete = (
        "DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE state = 'completed' AND queue = 'default'"
        " ORDER BY seq LIMIT 1000) RETURNING id"
    )
    pruned = 0
    while ids := database.execute(delete).fetchall():
        pruned += len(ids)
    assert pruned == count
