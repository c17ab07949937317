"""What operations cost as the queue grows, up to a million live jobs, right after a compaction; SQLite likewise."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stores
from measuring import environ, figure, in_new_process, in_turn, python, row, seconds

from jobq.store import Query
from jobq.testing import make_info

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from measuring import Bench, Row

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SQLITE = "SQLite WAL, the same work"
OPENED = {"counts": ("open + counts, a new process", 1.0), "add": ("open + add, a new process", 0.5)}
CLAIMS = "claim + finish of 10, a running process"
TENS = 40
COUNTS = "SELECT queue, state, count(*) FROM jobs GROUP BY queue, state"
FIRST = "SELECT record FROM jobs WHERE state = 'pending' ORDER BY queue, priority DESC, run_at, seq LIMIT 1000"


def rows(bench: Bench) -> Iterator[Row]:
    """At each size, then what is told of the largest alone."""
    home = bench.directory
    for size in SIZES[: bench.size(len(SIZES), 2)]:
        home = bench.new(f"live-{size}")
        stores.fill(home, size)
        yield from opening(bench, home, size)
        yield claiming(home, size)
        if size == 100_000:
            yield own_id(bench, home, size)
    yield from looking(bench, home, size)
    yield memory(bench, home, size)
    yield stalling(bench, home, size)


def opening(bench: Bench, home: Path, size: int) -> Iterator[Row]:
    """Each in a process that has imported what it needs and opened nothing."""
    for operation, (what, bound) in OPENED.items():
        acts = {kind: partial(in_new_process, opened, kind, operation, home) for kind in ("json", "sqlite")}
        rounds = bench.rounds(9)
        taken = in_turn(acts, rounds)
        yield row(
            f"growing.{operation}.{size}",
            f"{what}, {size:,} live",
            taken["json"],
            unit="ms",
            better="lower",
            floor=SQLITE,
            beside=taken["sqlite"],
            target=figure(bound),
            settings={"operation": what, "live": size, "rounds": rounds, "durability": "full"},
        )


def opened(kind: str, operation: str, home: str, job_id: str | None = None) -> float:
    """Milliseconds of opening a store and doing one thing; in a new process."""
    import jobq_json.finding  # a process imports it once, whatever the size
    import jobq_json.store
    import jobq_json.view  # likewise
    from jobq.testing import make_context, make_settings

    context, settings, new = make_context(Path(home)), make_settings(), stores.new_job(job_id)

    def act() -> None:
        if kind == "json":
            store = jobq_json.store.JsonStore(settings, context)
            _ = store.counts(now=stores.NOW) if operation == "counts" else store.add([new], now=stores.NOW)
        elif operation == "counts":
            stores.open_sqlite(Path(home)).execute(COUNTS).fetchall()
        else:
            stores.sqlite_add(stores.open_sqlite(Path(home)), [new])

    return 1000 * seconds(act)


def own_id(bench: Bench, home: Path, size: int) -> Row:
    """An id that the caller chose must be looked for."""
    ids = iter(range(10**6))
    acts = {
        kind: lambda kind=kind: in_new_process(opened, kind, "add", home, f"own-{next(ids)}")
        for kind in ("json", "sqlite")
    }
    taken = in_turn(acts, bench.rounds(9))
    return row(
        f"growing.own-id.{size}",
        f"open + add, a chosen id, a new process, {size:,} live",
        taken["json"],
        unit="ms",
        better="lower",
        floor=SQLITE,
        beside=taken["sqlite"],
        target=figure(10),
        settings={"live": size, "durability": "full"},
    )


def claiming(home: Path, size: int) -> Row:
    """Each time ten are claimed and completed: two transactions, each durable."""
    ours, theirs = in_new_process(in_tens, home)
    return row(
        f"growing.claim.{size}",
        f"{CLAIMS}, {size:,} live",
        ours,
        unit="ms",
        better="lower",
        floor=SQLITE,
        beside=theirs,
        settings={"operation": CLAIMS, "live": size, "times": TENS, "durability": "full"},
    )


def in_tens(home: str) -> list[list[float]]:
    """Milliseconds of each ten in either store, in turn; in a new process."""
    store, database = stores.open_json(Path(home)), stores.open_sqlite(Path(home))
    presence = store.join(make_info())
    stores.work(store, presence, 10)
    stores.sqlite_work(database, 10)
    acts = {
        "json": lambda: 1000 * seconds(stores.work, store, presence, 10),
        "sqlite": lambda: 1000 * seconds(stores.sqlite_work, database, 10),
    }
    taken = in_turn(acts, TENS)
    presence.close()
    return [taken["json"], taken["sqlite"]]


def looking(bench: Bench, home: Path, size: int) -> Iterator[Row]:
    """Finding one job by its id, and listing the first thousand, with the store open."""
    store, database, wanted = stores.open_json(home), stores.open_sqlite(home), f"job-{size - 1:07}"
    acts = {
        "show": lambda: store.get(wanted),
        "show-sqlite": lambda: database.execute("SELECT record FROM jobs WHERE id = ?", (wanted,)).fetchone(),
        "list": lambda: sum(1 for _ in store.find(Query(limit=1000))),
        "list-sqlite": lambda: [json.loads(record) for (record,) in database.execute(FIRST)],
    }
    for act in acts.values():
        act()
    taken = in_turn({name: lambda act=act: 1000 * seconds(act) for name, act in acts.items()}, bench.rounds(9))
    database.close()
    store.close()
    for name, what in (("show", f"get one of {size:,} by its id"), ("list", f"find the first 1,000 of {size:,}")):
        beside = {"floor": SQLITE, "beside": taken[f"{name}-sqlite"], "settings": {"live": size}}
        yield row(f"growing.{name}", what, taken[name], unit="ms", better="lower", **beside)


def memory(bench: Bench, home: Path, size: int) -> Row:
    """What a process holds that works as a worker does."""
    taken = in_turn({kind: partial(in_new_process, held, kind, home) for kind in ("json", "sqlite")}, bench.rounds(1))
    return row(
        "growing.memory",
        f"private memory of a process that works, {size:,} live",
        taken["json"],
        unit="MB",
        better="lower",
        floor=SQLITE,
        beside=taken["sqlite"],
        target=figure(100),
        settings={"live": size, "durability": "normal"},
    )


def held(kind: str, home: str) -> float:
    """MB of its own that a process has after some work; in a new process."""
    count = 500
    if kind == "json":
        store = stores.open_json(Path(home), "normal")
        presence = store.join(make_info())
        stores.work(store, presence, count)
        presence.close()
    else:
        stores.sqlite_work(stores.open_sqlite(Path(home), "normal"), count)
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) * 1024 / 1e6


def stalling(bench: Bench, home: Path, size: int) -> Row:
    """How long another process's add takes at most while this one compacts, and as long a time without that."""
    store = stores.open_json(home, "normal")
    longest: list[float] = []
    floor: list[float] = []
    compacting: list[float] = []
    for _ in range(bench.rounds(3)):
        with Adder(home) as adder:
            compacting.append(seconds(store.access.compact))
        longest.append(max(adder.took))
        with Adder(home) as adder:
            time.sleep(compacting[-1])
        floor.append(max(adder.took))
    store.close()
    return row(
        "growing.stall",
        f"longest add elsewhere during a compaction, {size:,} live",
        longest,
        unit="ms",
        better="lower",
        floor="longest add in as long without one",
        beside=floor,
        target=figure(5),
        settings={"live": size, "durability": "normal", "compaction": [f"{one:.2f} s" for one in compacting]},
    )


class Adder:
    """A process that adds jobs to a store as long as this is entered.

    Attributes:
        took: milliseconds of each add, in the end.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.took: list[float] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            python(add_until_told, self._home), env=environ(), stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        told, _ = self._process.communicate(timeout=60)
        self.took = json.loads(told)


def add_until_told(home: str) -> list[float]:
    """Add without a sync, a job a millisecond, until TERM; milliseconds of each; in a new process."""
    told: list[Any] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    store = stores.open_json(Path(home), "normal")
    took = []
    store.add([stores.new_job()], now=stores.NOW)
    print("ready", flush=True)
    while not told:
        new = [stores.new_job()]
        took.append(1000 * seconds(store.add, new, now=stores.NOW))
        time.sleep(0.001)
    return took or [0.0]
