"""The store of jobq-sqlite: what `json_store` and `growing` measure, ten busy workers, and searches; the JSON store beside it."""

from __future__ import annotations

import multiprocessing
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stores
from measuring import in_new_process, in_turn, row, seconds
from stores import NOW, new_job, new_jobs, rate

from jobq.executor import Kind, Outcome
from jobq.job import FINISHED, Job, State
from jobq.lifecycle import after
from jobq.store import Ended, NewJob, Query, Wanted
from jobq.testing import make_context, make_info, make_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measuring import Bench, Row

    from jobq.store import Store

JSON = "the JSON store, the same work"
KINDS = ("sqlite", "json")
PER_SECOND = {"unit": "jobs/s", "better": "higher", "floor": JSON}
SIZES = (1_000, 100_000, 1_000_000)
OPENED = {
    "counts": "open + counts, a new process",
    "add": "open + add, a new process",
    "own-id": "open + add, a chosen id, a new process",
}
RARE = 1000
"""One finished job in so many has the tag and the handler that are looked for."""


def rows(bench: Bench) -> Iterator[Row]:
    """Each with the JSON store in turn, but for the searches."""
    yield from adding(bench)
    yield from in_thousands(bench)
    yield from working(bench)
    yield from busy(bench)
    yield from opening(bench)
    yield from searching(bench)


def opened(kind: str, home: Path, durability: str = "full") -> Store:
    """The store of this kind in a home."""
    import jobq_sqlite

    if kind == "json":
        made: Store = stores.open_json(home, durability)
        return made
    (provider,) = jobq_sqlite.jobq_stores()
    return provider.make(make_settings(values={"durability": durability}), make_context(home))


def adding(bench: Bench) -> Iterator[Row]:
    """One by one and durable, by one process and by four."""
    count = bench.size(4000, 400)
    for processes in (1, 4):
        rounds = bench.rounds(3)
        taken = in_turn({kind: partial(_added, bench, kind, processes, count) for kind in KINDS}, rounds)
        yield row(
            f"sqlite_store.adding.{processes}",
            f"durable adds one by one, {processes} process{'es' if processes > 1 else ''}",
            taken["sqlite"],
            beside=taken["json"],
            settings={"count": count, "processes": processes, "rounds": rounds, "durability": "full"},
            **PER_SECOND,
        )


def _added(bench: Bench, kind: str, processes: int, count: int) -> float:
    home = bench.new("adding")
    opened(kind, home).add([new_job()], now=NOW)
    each = count // processes
    _, took = _at_once(add_singly, [(home, kind, each)] * processes)
    return each * processes / took


def add_singly(home: Path, kind: str, count: int, gate: Any) -> None:
    """Add jobs one by one as soon as all are ready; in a new process."""
    store, jobs = opened(kind, home), new_jobs(count)
    gate.wait(60)
    for each in jobs:
        store.add([each], now=NOW)


def in_thousands(bench: Bench) -> Iterator[Row]:
    """Durable batches of a thousand, with ids made by jobq and with such as somebody chose."""
    count, rounds = bench.size(40_000, 4_000), bench.rounds(5)
    for own in (False, True):
        home = bench.new("thousands")
        made = [
            [new_job(f"bulk-{turn}-{number}" if own else None) for number in range(count)] for turn in range(rounds)
        ]
        acts = {kind: partial(_batches, opened(kind, home), iter(made)) for kind in KINDS}
        taken = in_turn(acts, rounds)
        yield row(
            f"sqlite_store.thousands.{'own' if own else 'made'}",
            f"durable adds in thousands, ids {'of the caller' if own else 'made by jobq'}",
            taken["sqlite"],
            beside=taken["json"],
            settings={"count": count, "rounds": rounds, "durability": "full"},
            **PER_SECOND,
        )


def _batches(store: Store, left: Iterator[list[NewJob]]) -> float:
    jobs = next(left)
    parts = [jobs[start : start + 1000] for start in range(0, len(jobs), 1000)]
    return rate(len(jobs), lambda: [store.add(part, now=NOW) for part in parts])


def working(bench: Bench) -> Iterator[Row]:
    """Claim and complete in tens, what ended and the next claim in one transaction."""
    count, rounds = bench.size(10_000, 1_000), bench.rounds(3)
    for durability in ("normal", "full"):
        home = bench.new("working")
        acts = {}
        for kind in KINDS:
            store = opened(kind, home, durability)
            for _ in range(count * rounds // 1000):
                store.add(new_jobs(1000), now=NOW)
            acts[kind] = partial(rate, count, stores.work, store, store.join(make_info()), count)
        taken = in_turn(acts, rounds)
        yield row(
            f"sqlite_store.working.{durability}",
            f"claim + finish in tens, {durability}",
            taken["sqlite"],
            beside=taken["json"],
            settings={"count": count, "rounds": rounds, "durability": durability},
            **PER_SECOND,
        )


def busy(bench: Bench) -> Iterator[Row]:
    """Ten processes that claim and complete without a pause: how much they get done, and how long a call takes at most."""
    count, rounds, processes = bench.size(5_000, 1_000), bench.rounds(3), 10
    longest: dict[str, list[float]] = {kind: [] for kind in KINDS}

    def worked(kind: str) -> float:
        home = bench.new("busy")
        store = opened(kind, home)
        for _ in range(0, count, 1000):
            store.add(new_jobs(1000), now=NOW)
        store.close()
        waits, took = _at_once(work_until_empty, [(home, kind)] * processes)
        longest[kind].append(max(waits))
        return count / took

    taken = in_turn({kind: partial(worked, kind) for kind in KINDS}, rounds)
    facts = {"settings": {"count": count, "processes": processes, "rounds": rounds, "durability": "full"}}
    what = "ten processes that claim + finish one by one"
    yield row("sqlite_store.busy", what, taken["sqlite"], beside=taken["json"], **facts, **PER_SECOND)
    yield row(
        "sqlite_store.busy.longest",
        f"longest call of {what}",
        longest["sqlite"],
        unit="ms",
        better="lower",
        floor=JSON,
        beside=longest["json"],
        **facts,
    )


def work_until_empty(home: Path, kind: str, gate: Any) -> float:
    """Claim and complete job by job until there is none; milliseconds of the longest call; in a new process."""
    store = opened(kind, home)
    presence, outcome = store.join(make_info()), Outcome(kind=Kind.SUCCESS, exit_code=0, finished=NOW)
    ended: list[Ended] = []
    longest = 0.0
    gate.wait(60)
    while True:
        start = time.perf_counter()
        claims = store.claim(presence, wanted=Wanted(), limit=1, now=NOW, ended=ended).claims
        longest = max(longest, time.perf_counter() - start)
        if not claims:
            break
        ended = [Ended(each, after(each, outcome, now=NOW, delay=lambda *_: None)) for each in claims]
    presence.close()
    return 1000 * longest


def opening(bench: Bench) -> Iterator[Row]:
    """Each in a process that has imported what it needs and opened nothing; the JSON store right after a compaction."""
    for size in SIZES[: bench.size(len(SIZES), 1)]:
        home = bench.new(f"live-{size}")
        for kind in KINDS:
            store: Any = opened(kind, home, "normal")
            for start in range(0, size, 1000):
                jobs = [new_job(f"job-{number:07}").job for number in range(start, min(size, start + 1000))]
                store.add([NewJob(job, generated=True) for job in jobs], now=NOW)
            if kind == "json":
                assert store.access.compact()
            store.close()
        for operation, what in OPENED.items():
            acts = {kind: partial(in_new_process, once, kind, operation, home) for kind in KINDS}
            rounds = bench.rounds(9)
            taken = in_turn(acts, rounds)
            yield row(
                f"sqlite_store.{operation}.{size}",
                f"{what}, {size:,} live",
                taken["sqlite"],
                unit="ms",
                better="lower",
                floor=JSON,
                beside=taken["json"],
                settings={"live": size, "rounds": rounds, "durability": "full"},
            )


def once(kind: str, operation: str, home: str) -> float:
    """Milliseconds of opening a store and doing one thing; in a new process."""
    import jobq_sqlite.store  # noqa: F401  # likewise

    import jobq_json.finding  # a process imports it once, whatever the size
    import jobq_json.store
    import jobq_json.view  # noqa: F401  # likewise

    new = new_job(f"own-{time.time_ns()}" if operation == "own-id" else None)

    def act() -> None:
        store = opened(kind, Path(home))
        _ = store.counts(now=NOW) if operation == "counts" else store.add([new], now=NOW)

    return 1000 * seconds(act)


def searching(bench: Bench) -> Iterator[Row]:
    """In a store of finished jobs, of which few are looked for."""
    size = bench.size(1_000_000, 5_000)
    store = opened("sqlite", bench.new("finished"), "normal")
    for start in range(0, size, 5000):
        store.restore([_finished(number) for number in range(start, start + 5000)], now=NOW)
    store.add(new_jobs(1000), now=NOW)
    presence = store.join(make_info())
    late = NOW + timedelta(seconds=size - 100)

    def found(**conditions: Any) -> int:
        return sum(1 for _ in store.find(Query(states=FINISHED, **conditions)))

    acts: dict[str, tuple[str, Callable[[], object]]] = {
        "newest": ("the newest 1,000", lambda: found(limit=1000)),
        "tag": (f"by a tag that 1 in {RARE:,} has", lambda: found(tag="rare")),
        "handler": (f"by a handler that 1 in {RARE:,} has", lambda: found(handler="rare")),
        "since": ("those of the last 100 s", lambda: found(since=late)),
        "dead": ("by a state that none has", lambda: list(store.find(Query(states=frozenset({State.DEAD}))))),
        "prefix": ("by the beginning of an id", lambda: found(prefix="done-0000")),
        "counts": ("counts", lambda: store.counts(now=NOW)),
        "claim": ("claim + finish of 10", lambda: stores.work(store, presence, 10)),
    }
    for _, act in acts.values():
        act()
    taken = in_turn({name: lambda act=act: 1000 * seconds(act) for name, (_, act) in acts.items()}, bench.rounds(5))
    presence.close()
    store.close()
    for name, (what, _) in acts.items():
        settings = {"finished": size, "durability": "normal"}
        label = f"{what}, {size:,} finished"
        yield row(f"sqlite_store.finished.{name}", label, taken[name], unit="ms", better="lower", settings=settings)


def _finished(number: int) -> Job:
    rare = number % RARE == 0
    moment = NOW + timedelta(seconds=number)
    return Job(
        id=f"done-{number:07}",
        handler="rare" if rare else "common",
        payload={"in": "/home/me/in/in-0000000.png", "out": "/home/me/out/out.png", "size": [640, 480]},
        state=State.COMPLETED,
        tags=("rare",) if rare else (),
        run=1,
        rev=3,
        created_at=moment,
        updated_at=moment,
        run_at=moment,
        finished_at=moment,
    )


def _at_once(act: Callable[..., Any], each: list[tuple[Any, ...]]) -> tuple[list[Any], float]:
    """Call a function in a new process for each of these arguments; what they return, and the seconds from when all are ready."""
    method = multiprocessing.get_context("spawn")
    gate, answers = method.Barrier(len(each) + 1), method.SimpleQueue()
    running = [method.Process(target=_answer, args=(act, arguments, gate, answers)) for arguments in each]
    for process in running:
        process.start()
    gate.wait(60)
    found: list[Any] = []
    took = seconds(lambda: found.extend(answers.get() for _ in running))
    for process in running:
        process.join()
    return found, took


def _answer(act: Callable[..., Any], arguments: tuple[Any, ...], gate: Any, answers: Any) -> None:
    answers.put(act(*arguments, gate))
