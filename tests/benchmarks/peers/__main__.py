"""Runs peers and jobq in turn, and says what each figure was measured with; `peers/__init__.py` has how to call it."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from measuring import Bench, Row, Run, cells, in_turn, percentile, row, table

from peers.celery import Celery
from peers.dramatiq import Dramatiq
from peers.huey import HueyRedis, HueySqlite
from peers.jobq import Jobq
from peers.jobqpostgres import JobqPostgres
from peers.litequeue import Litequeue
from peers.peer import LIMIT, Peer
from peers.pgqueuer import PgQueuer
from peers.procrastinate import Procrastinate
from peers.rq import Rq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CLASSES = (Jobq, HueySqlite, Litequeue, HueyRedis, Rq, Dramatiq, Celery, Procrastinate, PgQueuer, JobqPostgres)
USUAL = (*((one, "full") for one in CLASSES), (Jobq, "normal"), (Litequeue, "normal"))
Kind = tuple[type[Peer], str]


def label(kind: Kind) -> str:
    """What a peer at a durability is called."""
    made, durability = kind
    return made.name if durability == "full" else f"{made.name}-{durability}"


BY_LABEL = {label((one, durability)): (one, durability) for one in CLASSES for durability in ("full", "normal")}


class Peers:
    """What a run measured and what it did not."""

    def __init__(self, bench: Bench, kinds: list[Kind]) -> None:
        self.bench = bench
        self.kinds = {label(kind): kind for kind in kinds}
        self.skipped: dict[tuple[str, str], str] = {}

    def opened(self, kind: Kind, what: str, act: Callable[[Peer], Any]) -> Any:
        """What an act answers of a peer that was opened for it alone; None if it does not, and why is kept."""
        made, durability = kind
        if (what, label(kind)) in self.skipped:
            return None
        directory = self.bench.new(label(kind))
        try:
            with made(directory, durability) as peer:
                return act(peer)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            self.skipped[what, label(kind)] = why(error, directory)
            return None
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def taken(self, what: str, act: Callable[[Peer], Any], rounds: int) -> dict[str, list[Any]]:
        """What an act answered of each peer, all of them once a round."""
        acts = {name: partial(self.opened, kind, what, act) for name, kind in self.kinds.items()}
        return {
            name: answers
            for name, answers in in_turn(acts, rounds).items()
            if (what, name) not in self.skipped  # a peer that failed once has no figure
        }

    def samples(self, what: str, act: Callable[[Peer], list[float]], rounds: int) -> dict[str, list[float]]:
        """The seconds that an act answered of each peer in all rounds, in ms."""
        taken = self.taken(what, act, rounds)
        return {name: [one * 1000 for each in answers for one in each] for name, answers in taken.items()}

    def rows(self, *, recovery: bool) -> Iterator[Row]:
        """Each figure beside that of jobq at the same durability."""
        size, rounds = self.bench.size, self.bench.rounds(3)
        enqueues, jobs = size(1000, 50), size(3000, 200)
        pickups, processes = size(100, 5), size(5, 1)

        rates = self.taken("enqueue", lambda peer: enqueues / peer.enqueue(enqueues), rounds)
        yield from self.beside("enqueue", f"{enqueues} jobs, one by one", rates, "jobs/s", "higher")

        def rate(peer: Peer) -> float:
            done, seconds = peer.drain(jobs)
            return done / seconds

        rates = self.taken("drain", rate, rounds)
        yield from self.beside(
            "drain", f"{jobs} jobs (or 20 s) that return at once, 2 workers", rates, "jobs/s", "higher"
        )

        waits = self.samples("pickup", lambda peer: peer.pickup(pickups), rounds)
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            what = f"{name} of {rounds} x {pickups}, enqueue to first line"
            yield from self.beside(f"pickup-{name}", what, waits, "ms", "lower", partial(percentile, share=share))

        # the first one may have to compile what it imports, and the plugins that jobq looks for
        cold = self.samples("cold", lambda peer: [peer.cold_enqueue() for _ in range(1 + processes)][1:], rounds)
        yield from self.beside("cold", "a new process: import, enqueue one, end", cold, "ms", "lower")

        if recovery:
            yield from self.recovery(self.taken("recovery", lambda peer: peer.recover(), 1))

    def beside(
        self,
        measure: str,
        what: str,
        samples: Mapping[str, list[float]],
        unit: str,
        better: Any,
        of: Callable[..., float] = median,
    ) -> Iterator[Row]:
        for name, figures in samples.items():
            made, durability = self.kinds[name]
            ours = label((Jobq, durability))
            yield row(
                f"peers.{measure}.{name}",
                what,
                figures,
                unit=unit,
                better=better,
                floor=None if made is Jobq else ours,
                beside=() if made is Jobq else samples.get(ours, ()),
                settings=self.told(name),
                of=of,
            )

    def recovery(self, answers: Mapping[str, list[float | str]]) -> Iterator[Row]:
        for name, (answer,) in answers.items():
            begun = not isinstance(answer, str)
            yield row(
                f"peers.recovery.{name}",
                "kill -9 of one of 2 workers in mid-job: " + ("it starts again" if begun else str(answer)),
                [answer if begun else LIMIT],
                unit="s",
                better="lower",
                settings={**self.told(name), "answer": "starts again" if begun else answer},
            )

    def told(self, name: str) -> dict[str, str]:
        """What a peer's figures were measured with."""
        made, durability = self.kinds[name]
        return {
            "version": made.versions(),
            "settings": made.settings,
            "durability": made(Path(), durability).durable(),
            "delivery": made.delivery,
        }


def why(error: Exception, directory: Path) -> str:
    """An error in a line, with the last error that a worker or a server printed."""
    said = f"not within {LIMIT:.0f} s" if isinstance(error, subprocess.TimeoutExpired) else f"{error}"
    lines = [line for path in sorted(directory.glob("*.log")) for line in path.read_text(errors="replace").splitlines()]
    errors = [line for line in lines if "error" in line.lower()]
    return "; ".join([said, *errors[-1:]])


def main() -> None:
    parser = argparse.ArgumentParser(prog="tox -e bench-peers --", description="jobq and its peers, in turn.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_LABEL)}")
    parser.add_argument("--recovery", action="store_true", help="also what becomes of a job whose worker is killed")
    parser.add_argument("--rounds", type=int, metavar="N", help="3, if it is not said")
    parser.add_argument("--small", action="store_true", help="try it; the figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what was measured")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(BY_LABEL):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    kinds = [BY_LABEL[name] for name in asked.names] or list(USUAL)
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="jobq-bench-peers-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        peers = Peers(Bench(directory, asked.rounds, asked.small), kinds)
        rows = []
        for one in peers.rows(recovery=asked.recovery):
            rows.append(one)
            print("  ".join(filter(None, cells(one))), file=sys.stderr, flush=True)
        run = Run.here(rows, directory, date=began, small=asked.small)
    print(table(run.rows))
    for name in peers.kinds:
        print(f"\n{name}:", *peers.told(name).values(), sep="\n  ")
    for (what, name), reason in peers.skipped.items():
        print(f"\nskipped: {what} of {name}: {reason}")
    if asked.json:
        run.write(asked.json)
    sys.exit(1 if any(name.startswith("jobq") for _, name in peers.skipped) else 0)


if __name__ == "__main__":
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of what stops workers and servers
    main()
