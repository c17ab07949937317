"""Gives back the jobs of workers that are gone, once nothing of them runs any more (docs/promises.md, 4 to 6)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq import lifecycle, processes
from jobq.errors import Conflict, JobNotFound
from jobq.executor import Recovered
from jobq.job import State
from jobq.started import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.app import App
    from jobq.job import Job
    from jobq.members import WorkerInfo
    from jobq.store import Claim

FIRST_PAUSE, LAST_PAUSE = 1.0, 30.0


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Jobs that cannot be given back, because something of their dead worker may still run."""

    worker: WorkerInfo
    jobs: tuple[Job, ...]
    why: str


class Recovery:
    """Looks for lost workers; has what they left ended, in threads, and gives back what they held.

    Args:
        wake: called when a thread has finished, so that `poll` is called again.
        own: the id of the worker that does this, which is nobody's to recover for itself.
    """

    def __init__(self, app: App, wake: Callable[[], None] = lambda: None, *, own: str = "") -> None:
        self._app, self._wake, self._own = app, wake, own
        self._boot = processes.boot_id()
        self._threads: dict[str, threading.Thread] = {}
        self._results: dict[str, Recovered] = {}
        self._again: dict[str, tuple[float, float]] = {}
        self._told: tuple[str, ...] = ()
        self.held_up: tuple[HeldUp, ...] = ()

    @property
    def under_way(self) -> bool:
        """Whether something is being recovered, or was and is not yet given back."""
        return bool(self._threads or self._results)

    def poll(self) -> int:
        """Take one step and return at once; how many jobs were given back."""
        given_back = 0
        held_up = []
        results = {worker_id: self._results.pop(worker_id) for worker_id in list(self._results)}
        for worker, claims in self._app.store.lost(now=self._app.clock.now()):
            if worker.id == self._own:
                continue
            # Who was on another machine, or before this one's last boot, has had the time of a lease to end what it ran
            recovered = Recovered(clean=True) if self._is_elsewhere(worker) else results.get(worker.id)
            if recovered is not None and recovered.clean:
                given_back += self._give_back(worker, claims)
                self._again.pop(worker.id, None)
                continue
            if recovered is not None:
                pause = min(LAST_PAUSE, 2 * self._again.get(worker.id, (0.0, FIRST_PAUSE / 2))[1])
                self._again[worker.id] = (self._app.clock.monotonic() + pause, pause)
                held_up.append(HeldUp(worker, tuple(claim.job for claim in claims), recovered.why))
                continue
            known = next((held for held in self.held_up if held.worker.id == worker.id), None)
            if known is not None:
                held_up.append(known)
            if (
                worker.id not in self._threads
                and self._app.clock.monotonic() >= self._again.get(worker.id, (0.0, 0.0))[0]
            ):
                self._start(worker)
        self.held_up = tuple(held_up)
        return given_back

    def news(self) -> list[str]:
        """One sentence on each dead worker of which jobs are held up that were not when this was last asked."""
        told, self._told = self._told, tuple(job.id for held in self.held_up for job in held.jobs)
        sentences = []
        for held in self.held_up:
            fresh = [job.id for job in held.jobs if job.id not in told]
            if fresh:
                ids = ", ".join(fresh[:5])
                sentences.append(f"{ids} cannot run again yet, worker {held.worker.name} died: {held.why}")
        return sentences

    def settle(self) -> tuple[HeldUp, ...]:
        """Recover everything that can be, and return when that is done: what is still held up, and why."""
        self.poll()
        while self._threads or self._results:
            for thread in list(self._threads.values()):
                thread.join()
            self.poll()
        return self.held_up

    def _start(self, worker: WorkerInfo) -> None:
        executor = self._app.executor

        def work() -> None:
            try:
                result = executor.recover(worker)
            except Exception as error:
                result = Recovered(clean=False, why=f"looking for it failed: {type(error).__name__}: {error}")
            self._results[worker.id] = result
            del self._threads[worker.id]
            self._wake()

        thread = threading.Thread(target=work, name=f"jobq-recover-{worker.id}", daemon=True)
        self._threads[worker.id] = thread
        try:
            thread.start()
        except RuntimeError as error:  # no room for a thread now
            self._results[worker.id] = Recovered(clean=False, why=f"it cannot be looked for now: {error}")
            del self._threads[worker.id]

    def _is_elsewhere(self, worker: WorkerInfo) -> bool:
        """Whether nothing of a lost worker can be on this machine, and the store, which spans several, says that enough."""
        return "hosts" in self._app.store.capabilities and worker.boot_id != self._boot

    def _give_back(self, worker: WorkerInfo, claims: Sequence[Claim]) -> int:
        now = self._app.clock.now()
        # Of a worker whose own words are gone nothing is known, and a power cut is what loses them. One elsewhere may
        # have gone down with its machine or been cut off, but a job that takes down one worker after the other has to
        # be contained there too.
        told = worker.pid != 0 and worker.boot_id == self._boot
        counted = (told or self._is_elsewhere(worker)) and not worker.state.startswith("draining")
        max_losses = self._app.settings["max-losses"]
        # Nothing brings the notes to the disk: after another boot, if one can tell, they may miss some that had begun.
        started = noted(self._app.home.path, worker.id) if told and self._boot else None
        given_back = 0
        for claim in claims:
            if claim.job.handler is not None and started is not None and not started.has(claim.job):
                change = lifecycle.lost_unstarted(claim, now=now)
            else:
                change = lifecycle.lost(claim, now=now, counted=counted, max_losses=max_losses)
            change = lifecycle.settled(claim.job, change)
            try:
                job = self._app.store.change(claim.job, change, now=now)
            except (Conflict, JobNotFound):  # another recoverer was faster, or a cancel came between: see the next poll
                continue
            given_back += 1
            self._app.tell("lost" if job.state is State.PENDING else job.state, job, run=claim.run, time=now)
        if given_back == len(claims):
            self._app.store.forget(worker)
        return given_back
