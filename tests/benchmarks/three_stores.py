"""The same work on each store: enqueue one by one, a thousand at a time, and handlers through one worker."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import queues
from jobq_postgres.testing import Server
from measuring import in_turn, row
from stores import rate

from jobq import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measuring import Bench, Row

SINGLY, MANY, BATCH, RUN = 1_000, 50_000, 1_000, 10_000


def rows(bench: Bench) -> Iterator[Row]:
    """Each store beside the JSON store; the server is on this machine too, and out of a wheel."""
    with _server() as server:
        urls = {"json": "json:", "sqlite": "sqlite:", "postgresql": server.url}
        acts = {
            (act.__name__, store): partial(_on_a_new_store, bench, url, act)
            for act in (singly, in_thousands, handlers)
            for store, url in urls.items()
        }
        rounds = bench.rounds(3)
        taken = in_turn({f"{act}.{store}": measure for (act, store), measure in acts.items()}, rounds)
    what = {
        "singly": "Queue.enqueue, one by one, durable",
        "in_thousands": "Queue.enqueue_many, 1,000 at a time, durable",
        "handlers": "handlers that return at once, one worker, --count 2",
    }
    for act, store in acts:
        beside = {} if store == "json" else {"floor": "the same with json:", "beside": taken[f"{act}.json"]}
        settings = {"rounds": rounds, "durability": "full"}
        name = f"three_stores.{act}.{store}"
        samples = taken[f"{act}.{store}"]
        yield row(name, f"{what[act]}, {store}:", samples, unit="jobs/s", better="higher", settings=settings, **beside)


def singly(bench: Bench, home: Path) -> float:
    """Jobs a second."""
    fields = queues.specs(bench.size(SINGLY, SINGLY // 20))
    with Queue.open(home=home) as queue:
        queue.enqueue(command="true")  # what opening costs is another row's

        def enqueue() -> None:
            for each in fields:
                queue.enqueue(**each)

        return rate(len(fields), enqueue)


def in_thousands(bench: Bench, home: Path) -> float:
    """Jobs a second."""
    count = bench.size(MANY, MANY // 20)
    batches = [queues.specs(BATCH, start) for start in range(0, count, BATCH)]
    with Queue.open(home=home) as queue:
        queue.enqueue(command="true")

        def enqueue() -> None:
            for batch in batches:
                queue.enqueue_many(batch)

        return rate(count, enqueue)


def handlers(bench: Bench, home: Path) -> float:
    """Jobs a second."""
    count = bench.size(RUN, RUN // 20)
    return count / queues.run_all(home, [{"handler": "nothing"}] * count, count=2)


def _on_a_new_store(bench: Bench, url: str, act: Callable[[Bench, Path], float]) -> float:
    directory = bench.new("stores")
    if url.startswith("postgresql:"):
        url += f"?schema=s{directory.name.replace('-', '_')}"
    return act(bench, queues.new_home(directory, store=url))


@contextmanager
def _server() -> Iterator[Server]:
    """A server; not in the directory of the others, since it may have to run as another user."""
    directory = Path(tempfile.mkdtemp(prefix="jobq-bench-server-"))
    directory.chmod(0o755)
    (directory / "data").mkdir()
    try:
        with Server(directory / "data") as server:
            yield server
    finally:
        shutil.rmtree(directory, ignore_errors=True)
