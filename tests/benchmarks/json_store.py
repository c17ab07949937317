"""The figures that the JSON store is to keep, measured, with SQLite (WAL) doing the same work in the same run.

    python tests/benchmarks/json_store.py [--small] [NAME...]

Run by hand: it takes some minutes and about 2 GB of disk (`--small` leaves out what needs a million jobs). Every
row is the median or the best of several runs; on a busy machine the ratio to SQLite says more than the figure.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import jobq_json
from jobq.executor import Kind, Outcome
from jobq.job import Job, State, new_id
from jobq.lifecycle import after, cancel
from jobq.store import Ended, NewJob, Query, Wanted
from jobq.testing import make_context, make_info, make_settings

NOW = datetime(2026, 7, 11, 20, 57, 58, 316000, tzinfo=UTC)
ENV = {"PATH": "/usr/bin:/bin"}


def open_json(home: Path, durability: str = "full"):
    (provider,) = jobq_json.jobq_stores()
    return provider.make(make_settings(values={"durability": durability}), make_context(home))


def job(job_id: str | None = None) -> NewJob:
    made = Job(
        id=job_id or new_id(),
        command="convert in.png out.png",
        cwd="/home/me/pictures",
        env=ENV,
        run_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return NewJob(made, generated=job_id is None)


def open_sqlite(home: Path, durability: str = "full") -> sqlite3.Connection:
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


def row(new: NewJob) -> tuple:
    made = new.job
    record = json.dumps(made.record(), separators=(",", ":"))
    return made.id, made.state.value, made.queue, made.priority, made.record()["run_at"], record


INSERT = "INSERT INTO jobs (id, state, queue, priority, run_at, record) VALUES (?, ?, ?, ?, ?, ?)"


def sqlite_add(connection: sqlite3.Connection, new: list[NewJob]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(INSERT, [row(each) for each in new])
    connection.execute("COMMIT")


def fill(home: Path, count: int) -> None:
    """A store of `count` live jobs in either form, the JSON one right after a compaction."""
    store, connection = open_json(home, "normal"), open_sqlite(home, "normal")
    for start in range(0, count, 1000):
        new = [job(f"job-{number:07}") for number in range(start, min(count, start + 1000))]
        store.add([NewJob(each.job, generated=True) for each in new], now=NOW)
        sqlite_add(connection, new)
    assert store.access.compact()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def in_new_process(task: str, home: Path, *arguments: str) -> float:
    """The seconds that a task reports from a process of its own."""
    command = [sys.executable, __file__, "--task", task, str(home), *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def median_of(task: str, home: Path, *arguments: str, runs: int = 9) -> float:
    return statistics.median(in_new_process(task, home, f"{run}", *arguments) for run in range(runs))


def task(name: str, home: Path, run: str, *arguments: str) -> float:
    import jobq_json.finding
    import jobq_json.store
    import jobq_json.view

    context, settings = make_context(home), make_settings()
    made = job(f"own-{run}" if arguments else None)
    start = time.perf_counter()
    if name == "json-counts":
        jobq_json.store.JsonStore(settings, context).counts(now=NOW)
    elif name == "json-add":
        jobq_json.store.JsonStore(settings, context).add([made], now=NOW)
    elif name == "sqlite-counts":
        open_sqlite(home).execute("SELECT queue, state, count(*) FROM jobs GROUP BY queue, state").fetchall()
    elif name == "sqlite-add":
        connection = open_sqlite(home)
        connection.execute("DELETE FROM jobs WHERE id = ?", (f"own-{run}",))
        sqlite_add(connection, [made])
    return time.perf_counter() - start


def show(label: str, ours: str, theirs: str = "-", goal: str = "") -> None:
    print(f"{label:<58} {ours:>16} {theirs:>16}   {goal}", flush=True)


def opening(root: Path, sizes: list[int]) -> None:
    for size in sizes:
        home = root / f"home-{size}"
        if not home.exists():
            fill(home, size)
        for what, goal in (("counts", "< 1 ms"), ("add", "< 0.5 ms")):
            ours, theirs = median_of(f"json-{what}", home), median_of(f"sqlite-{what}", home)
            show(f"open + {what}, new process, {size} live", f"{ours * 1e3:.2f} ms", f"{theirs * 1e3:.2f} ms", goal)
    ours, theirs = (median_of(f"{kind}-add", root / "home-100000", "own") for kind in ("json", "sqlite"))
    show("open + add, own id, 100000 live", f"{ours * 1e3:.2f} ms", f"{theirs * 1e3:.2f} ms", "< 10 ms")


def replay(root: Path) -> None:
    home = root / "replay"
    store = open_json(home, "normal")
    for _ in range(10):
        store.add([job() for _ in range(1000)], now=NOW)
    size = store.access.look().journal.size / 1e6
    seconds = median_of("json-counts", home)
    show("replay of added jobs, a MB of journal", f"{seconds * 1e3 / size:.1f} ms", "-", "< 30 ms")
    home = root / "replay-work"
    store = open_json(home, "normal")
    presence = store.join(make_info())
    store.add([job() for _ in range(2500)], now=NOW)  # as much as is replayed before a compaction
    assert store.access.compact()
    work(store, presence, 2500)
    size = store.access.look().journal.size / 1e6
    presence.close()
    seconds = median_of("json-counts", home)
    show("replay of claims and ends, a MB of journal", f"{seconds * 1e3 / size:.1f} ms", "-", "< 30 ms")


def ends(claims) -> list[Ended]:
    outcome = Outcome(kind=Kind.SUCCESS, exit_code=0, finished=NOW)
    return [Ended(claim, after(claim, outcome, now=NOW, delay=lambda *_: None)) for claim in claims]


def work(store, presence, count: int) -> None:
    ended: list[Ended] = []
    done = 0
    while done < count:
        claimed = store.claim(presence, wanted=Wanted(), limit=10, now=NOW, ended=ended)
        ended = ends(claimed.claims)
        done += len(claimed.claims)
    store.finish(presence, ended, now=NOW)


def sqlite_work(connection: sqlite3.Connection, count: int) -> None:
    held: list[tuple[int, str]] = []
    done = 0
    while done < count or held:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("UPDATE jobs SET state = 'completed', record = ? WHERE seq = ?", held)
        taken = (
            []
            if done >= count
            else connection.execute(
                "SELECT seq, record FROM jobs WHERE state = 'pending' AND queue = 'default'"
                " ORDER BY state, queue, priority DESC, run_at, seq LIMIT 10"
            ).fetchall()
        )
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


def working(root: Path) -> None:
    count, rounds = 10_000, 5
    for durability, goal in (("normal", "> 30k"), ("full", "> 14k")):
        home = root / f"work-{durability}"
        store, connection = open_json(home, durability), open_sqlite(home, durability)
        for _ in range(count * rounds // 1000):
            new = [job() for _ in range(1000)]
            store.add(new, now=NOW)
            sqlite_add(connection, new)
        assert store.access.compact()
        presence = store.join(make_info())
        ours = theirs = 0.0
        for _ in range(rounds):
            ours = max(ours, rate(count, work, store, presence, count))
            theirs = max(theirs, rate(count, sqlite_work, connection, count))
        presence.close()
        show(f"claim + finish in tens, a second, {durability}", f"{ours:.0f}", f"{theirs:.0f}", goal)


def rate(count: int, act, *arguments) -> float:
    """How many a second an act does that does `count`."""
    start = time.perf_counter()
    act(*arguments)
    return count / (time.perf_counter() - start)


def add_singly(home: Path, kind: str, count: int, gate) -> None:
    store = open_json(home) if kind == "json" else open_sqlite(home)
    jobs = [job() for _ in range(count)]
    gate.wait()
    for each in jobs:
        if kind == "json":
            store.add([each], now=NOW)
        else:
            sqlite_add(store, [each])


def join_all(processes) -> None:
    for each in processes:
        each.join()


def adding(root: Path) -> None:
    method = multiprocessing.get_context("spawn")
    for processes, goal in ((1, "> 4k"), (4, "> 5k")):
        rates = []
        for kind in ("json", "sqlite"):
            home, count = root / f"add-{kind}-{processes}", 4000 // processes
            open_json(home).add([job()], now=NOW)
            open_sqlite(home).close()
            gate = method.Barrier(processes + 1)
            running = [method.Process(target=add_singly, args=(home, kind, count, gate)) for _ in range(processes)]
            for each in running:
                each.start()
            gate.wait()
            rates.append(rate(count * processes, join_all, running))
        show(f"durable adds one by one, a second, {processes} processes", *(f"{rate:.0f}" for rate in rates), goal)


def add_all(add, batches) -> None:
    for batch in batches:
        add(batch)


def bulk(root: Path) -> None:
    count, rounds = 40_000, 5
    for own in (False, True):
        home = root / f"bulk-{own}"
        store, connection = open_json(home), open_sqlite(home)
        ours = theirs = 0.0
        for turn in range(rounds):
            jobs = [job(f"bulk-{turn}-{number}" if own else None) for number in range(count)]
            batches = [jobs[start : start + 1000] for start in range(0, count, 1000)]
            ours = max(ours, rate(count, add_all, partial(store.add, now=NOW), batches))
            theirs = max(theirs, rate(count, add_all, partial(sqlite_add, connection), batches))
        label = "own ids" if own else "ids made by jobq"
        show(f"durable adds in thousands, a second, {label}", f"{ours:.0f}", f"{theirs:.0f}", "> 80k")


def pruning(root: Path) -> None:
    """Delete 100,000 completed jobs in thousands, also where as many cancelled ones that stay lie in between."""
    for between, label in ((False, ""), (True, ", cancelled ones in between")):
        home = root / f"prune-{between}"
        store = open_json(home, "normal")
        presence = store.join(make_info())
        for _ in range(100):
            store.add([job() for _ in range(1000)], now=NOW)
            work(store, presence, 1000)
            if between:
                other = [job() for _ in range(1000)]
                store.add(other, now=NOW)
                for each in other:
                    store.change(each.job, cancel(each.job, now=NOW), now=NOW)
        presence.close()
        store.access.compact()
        store.close()
        store = open_json(home)
        rates = rate(100_000, prune_all, store)
        show(f"prune 100000 in thousands{label}", f"{100_000 / rates:.1f} s", "-", "< 5 s")


def prune_all(store) -> None:
    pruned = 0
    while ids := store.prune(states=frozenset({State.COMPLETED}), before=NOW + timedelta(days=1), limit=1000):
        pruned += len(ids)
    assert pruned == 100_000


def million(root: Path) -> None:
    home = root / "home-1000000"
    if not home.exists():
        fill(home, 1_000_000)
    script = (
        "import sys, resource; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "import json_store as b; from jobq.testing import make_info;"
        "store = b.open_json(Path(sys.argv[1])); presence = store.join(make_info());"
        "b.work(store, presence, 2000); presence.close();"
        "print(sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith('Private')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(home), str(Path(__file__).parent)],
        check=True,
        capture_output=True,
        text=True,
    )
    show("private memory of a worker, 1000000 live", f"{int(done.stdout) / 1024:.0f} MB", "-", "< 100 MB")
    store = open_json(home)
    stalls: list[float] = []
    stop = threading.Event()
    other = subprocess.Popen(
        [sys.executable, __file__, "--task", "add-for-ever", str(home), "0"], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    other.stdout.readline()
    start = time.perf_counter()
    assert store.access.compact()
    took = time.perf_counter() - start
    stop.set()
    other.terminate()
    stalls = [float(line) for line in other.stdout.read().split()]
    other.wait()
    lock = sorted(stalls)
    show("longest add elsewhere in a compaction, 1000000 live", f"{lock[-1] * 1e3:.1f} ms", "-", "< 5 ms")
    show(
        "  median, 99 % of them; the compaction took",
        f"{statistics.median(lock) * 1e3:.2f} ms, {lock[int(len(lock) * 0.99)] * 1e3:.1f} ms",
        f"{took:.1f} s",
    )
    start = time.perf_counter()
    store.get("job-0999999")
    show("show one of 1000000", f"{(time.perf_counter() - start) * 1e3:.0f} ms")
    start = time.perf_counter()
    sum(1 for _ in store.find(Query(limit=1000)))
    show("list 1000 of 1000000", f"{(time.perf_counter() - start) * 1e3:.0f} ms")


def add_for_ever(home: Path) -> None:
    """Add and finish without a sync and report how long each took, until told to stop."""
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    store = open_json(home, "normal")
    took: list[float] = []
    print("ready", flush=True)
    try:
        while True:
            start = time.perf_counter()
            store.add([job()], now=NOW)
            took.append(time.perf_counter() - start)
            time.sleep(0.001)
    finally:
        print(*took, sep="\n", flush=True)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--task"]:
        name, home, *rest = arguments[1:]
        if name == "add-for-ever":
            add_for_ever(Path(home))
        print(task(name, Path(home), *rest))
        return
    small = "--small" in arguments
    names = [name for name in arguments if not name.startswith("-")]
    root = Path(tempfile.mkdtemp(prefix="jobq-benchmark-"))
    try:
        show("", "jobq_json", "SQLite WAL", "to keep")
        sizes = [1000, 100_000] if small else [1000, 100_000, 1_000_000]
        parts = {
            "opening": lambda: opening(root, sizes),
            "replay": lambda: replay(root),
            "adding": lambda: adding(root),
            "bulk": lambda: bulk(root),
            "working": lambda: working(root),
            "pruning": lambda: pruning(root),
            "million": lambda: None if small else million(root),
        }
        for name, part in parts.items():
            if not names or name in names:
                part()
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    os.umask(0o077)
    main()
