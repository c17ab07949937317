"""Handlers a second through one worker and its warm children, beside a pipe to one child that answers at once."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import queues
from measuring import figure, in_turn, ratio, row
from stores import rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Bench, Row

QUICK = 20_000
BURNING = 5_000
MICROSECONDS = 200


def rows(bench: Bench) -> Iterator[Row]:
    """Handlers that return at once, and such that compute."""
    yield from quick(bench)
    yield from burning(bench)


def quick(bench: Bench) -> Iterator[Row]:
    """At either durability, beside a pipe with 10 requests in flight; and with one, which is what a round trip costs."""
    count = bench.size(QUICK, QUICK // 20)
    jobs = [{"handler": "nothing"}] * count

    def run(durability: str) -> float:
        home = queues.new_home(bench.new("handlers"), durability=durability)
        return count / queues.run_all(home, jobs, count=2)

    acts = {name: partial(run, name) for name in ("full", "normal")}
    acts |= {f"{ahead} in flight": partial(through_pipe, count, ahead) for ahead in (1, 10)}
    rounds = bench.rounds(3)
    taken = in_turn(acts, rounds)
    for durability, bound in (("full", 12_000), ("normal", 16_000)):
        what = f"{count:,} handlers that return at once, --count 2"
        settings = {"count": count, "at once": 2, "rounds": rounds, "durability": durability}
        common = {"unit": "jobs/s", "better": "higher", "settings": settings}
        name, ours = f"handlers.{'durable' if durability == 'full' else durability}", taken[durability]
        for ahead, target in (("10 in flight", figure(bound)), ("1 in flight", None)):
            beside = {"floor": f"a child's pipe, {ahead}", "beside": taken[ahead]}
            own = name if target else f"{name}.one-in-flight"
            yield row(own, f"{what}, {durability}", ours, target=target, **beside, **common)


def burning(bench: Bench) -> Iterator[Row]:
    """Two children beside one, where there is something to compute."""
    count = bench.size(BURNING, BURNING // 20)
    jobs = [{"handler": "burn", "payload": MICROSECONDS}] * count

    def run(at_once: int) -> float:
        return count / queues.run_all(queues.new_home(bench.new("burning")), jobs, count=at_once)

    rounds = bench.rounds(3)
    taken = in_turn({"one": partial(run, 1), "two": partial(run, 2)}, rounds)
    yield row(
        "handlers.two-children",
        f"{count:,} handlers of {MICROSECONDS} µs of CPU, --count 2",
        taken["two"],
        unit="jobs/s",
        better="higher",
        floor="the same, --count 1",
        beside=taken["one"],
        target=ratio(1.5),
        settings={"count": count, "rounds": rounds, "durability": "full"},
    )


def through_pipe(count: int, ahead: int) -> float:
    """Lines a second that a forked child answers with a line each, so many of them on their way at once."""
    (here, its_answers), (its_requests, there) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(here)
            os.close(there)
            _answer(its_requests, its_answers)
        finally:
            os._exit(0)
    os.close(its_answers)
    os.close(its_requests)
    with os.fdopen(here, "rb") as answers, os.fdopen(there, "wb", buffering=0) as requests:

        def ask() -> None:
            sent = 0
            for answered in range(count):
                while sent < min(count, answered + ahead):
                    requests.write(b"do\n")
                    sent += 1
                answers.readline()

        try:
            return rate(count, ask)
        finally:
            requests.close()
            os.waitpid(child, 0)


def _answer(requests: int, answers: int) -> None:
    """What the child does."""
    with os.fdopen(requests, "rb") as lines:
        while lines.readline():
            os.write(answers, b"ok\n")
