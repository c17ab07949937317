"""The queue: everything that can be done to jobs but running them. What programs use, and the command line too."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from jobq import lifecycle, output, retention
from jobq.clock import Wake
from jobq.errors import DuplicateJob, InvalidInput, JobChanged, JobNotFound, WaitTimeout
from jobq.events import Event, EventKind
from jobq.job import ENDED, Job, State
from jobq.spec import QUEUE, new_job
from jobq.store import NewJob, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta
    from types import TracebackType

    from jobq.app import App
    from jobq.job import Change
    from jobq.recovery import HeldUp
    from jobq.store import Counts, WorkerInfo

ADD_BATCH = 1000
WAIT_INTERVAL = 0.05


class Queue:
    """A handle on one queue of jobs: open it, use it from one thread, close it (it is a context manager).

    `Queue.open()` is how programs get one. Every method may raise `StoreError`.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    @classmethod
    def open(cls, *, home: str | os.PathLike[str] | None = None, store: str | None = None, **settings: str) -> Queue:
        """Open the queue that the command line, started in the same directory, would use.

        Args:
            home: the home directory instead of the one found.
            store: the store's URL instead of the configured one.
            settings: values that go before the configured ones, by name with underscores, as text.

        Raises:
            StoreError: the home or the store cannot be used.
            PluginError: the store's plugin is missing or broken.
            InvalidInput: a setting is wrong.
        """
        from jobq.app import App

        flags = dict(settings)
        if store is not None:
            flags["store"] = store
        return cls(App(home=None if home is None else os.fspath(home), flags=flags))

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free everything, after waiting at most 2 s for notifiers."""
        self._app.close()

    def enqueue(self, *, allow_unknown_handler: bool = False, **fields: Any) -> Job:
        """Enqueue one job; durable on return.

        Args:
            allow_unknown_handler: accept a handler that is not installed here.
            fields: `command` or `handler`; and of `id payload queue priority max_attempts run_at delay timeout cwd
                env tags meta on_lost retry_on no_retry_on`. Instants are aware datetimes, durations timedeltas or
                numbers of seconds.

        Raises:
            InvalidInput: a field breaks a rule.
            DuplicateJob: the id is taken.
        """
        (job,) = self.enqueue_many([fields], allow_unknown_handler=allow_unknown_handler)
        return job

    def enqueue_many(
        self, specs: Iterable[object], *, allow_unknown_handler: bool = False, if_absent: bool = False
    ) -> list[Job]:
        """Enqueue jobs in order, each given as a mapping of fields; all of them are checked before any is stored.

        Args:
            specs: the jobs' fields, as `enqueue` takes them.
            allow_unknown_handler: accept handlers that are not installed here.
            if_absent: a job whose id exists with the same command or handler and payload is answered with, not an
                error.

        Raises:
            InvalidInput: names the 1-based number of the first wrong one, where there are several.
            DuplicateJob: ids that are taken; nothing was stored.
        """
        new = self.prepare(specs, allow_unknown_handler=allow_unknown_handler)
        return self.store_new(new, if_absent=if_absent)

    def prepare(self, specs: Iterable[object], *, allow_unknown_handler: bool = False) -> list[NewJob]:
        """Check specs and make jobs of them, without storing anything.

        Raises:
            InvalidInput: as `enqueue_many`.
            DuplicateJob: an id comes twice.
        """
        app = self._app
        now = app.clock.now()
        directory = os.getcwd()
        new: list[NewJob] = []
        many = not isinstance(specs, list) or len(specs) > 1
        for number, spec in enumerate(specs, 1):
            needs_handlers = isinstance(spec, dict) and "handler" in spec and not allow_unknown_handler
            handlers = app.handlers if needs_handlers else None
            try:
                new.append(new_job(spec, app.settings, now=now, handlers=handlers, directory=directory))
            except InvalidInput as error:
                raise error.at_line(number) if many and error.line is None else error from None
        twice = [job_id for job_id, count in Counter(item.job.id for item in new).items() if count > 1]
        if twice:
            raise DuplicateJob(twice)
        return new

    def store_new(
        self, new: Sequence[NewJob], *, if_absent: bool = False, progress: Callable[[int], None] | None = None
    ) -> list[Job]:
        """Store jobs that `prepare` made. Up to 1,000 are stored all or none; more go in batches of 1,000.

        Before more than one batch is stored, every id is checked, so that only a race with another process can leave
        a part of them stored; the error then says how many.

        Raises:
            DuplicateJob: ids that are taken.
        """
        if not new:
            return []
        self._app.create_home()
        new = list(new)
        if len(new) > ADD_BATCH:
            self._refuse_taken(new, if_absent=if_absent)
        jobs: list[Job] = []
        for start in range(0, len(new), ADD_BATCH):
            jobs += self._add(new[start : start + ADD_BATCH], if_absent=if_absent)
            if progress is not None:
                progress(len(jobs))
        return jobs

    def get(self, job_id: str) -> Job:
        """The job of this whole id.

        Raises:
            JobNotFound: there is none.
        """
        return self._app.store.get(job_id)

    def find(self, query: Query | None = None) -> Iterator[Job]:
        """The jobs that match: running, waiting in claim order, dead, then finished ones, latest first."""
        return self._app.store.find(query or Query())

    def counts(self) -> Counts:
        """How many jobs there are, by queue and state, and which queues are paused."""
        return self._app.store.counts(now=self._app.clock.now())

    def workers(self) -> list[WorkerInfo]:
        """The live workers."""
        return self._app.store.workers()

    def cancel(self, job_id: str) -> Job:
        """Cancel a waiting job, or ask a running one to stop; the job after that.

        A running job is `processing` until its processes are gone: `wait` tells when. A cancelled one stays as it is.

        Raises:
            JobNotFound: there is no such job.
            WrongState: it is completed or dead.
        """
        return self._change(job_id, lambda job: lifecycle.cancel(job, now=self._app.clock.now()), EventKind.CANCELLED)

    def retry(self, job_id: str) -> Job:
        """Make a failed, dead or cancelled job pending now; a dead or cancelled one starts from 0 attempts.

        Raises:
            JobNotFound: there is no such job.
            WrongState: it is processing or completed.
        """
        return self._change(job_id, lambda job: lifecycle.retry(job, now=self._app.clock.now()), EventKind.RETRIED)

    def delete(self, job_id: str) -> Job:
        """Delete a job and its output; the job as it was.

        Raises:
            JobNotFound: there is no such job.
            WrongState: it is running.
        """
        while True:
            job = self.get(job_id)
            lifecycle.check_deletable(job)
            if self._app.store.delete([job]):
                output.remove(self._app.home.path, job_id)
                self._notify(EventKind.DELETED, job)
                return job

    def prune(self, *, older_than: timedelta, states: frozenset[State] = frozenset({State.COMPLETED})) -> int:
        """Delete ended jobs of these states, and their output, that last changed that long ago; how many.

        Raises:
            InvalidInput: a state that is not an ended one.
        """
        if not states <= ENDED:
            raise InvalidInput("state", ", ".join(sorted(states - ENDED)), "is no state in which a job has ended")
        return retention.prune(self._app.store, self._app.home.path, states, self._app.clock.now() - older_than)

    def pause(self, queue: str, *, reason: str = "") -> None:
        """Let no more jobs of this queue be claimed, until `resume`; running ones go on.

        Raises:
            InvalidInput: that is no name of a queue.
        """
        self._pause(queue, True, reason)

    def resume(self, queue: str) -> None:
        """Let jobs of this queue be claimed again.

        Raises:
            InvalidInput: that is no name of a queue.
        """
        self._pause(queue, False, "")

    def wait(
        self, job_ids: Sequence[str], *, timeout: timedelta | None = None, seen: Callable[[Job], None] | None = None
    ) -> list[Job]:
        """Return when every one of these jobs has ended (completed, dead or cancelled): the jobs, in order.

        Args:
            job_ids: whole ids.
            timeout: the longest to wait; None without end.
            seen: called with each job as it ends.

        Raises:
            JobNotFound: one does not exist, or was deleted meanwhile.
            WaitTimeout: the time ran out.
        """
        clock = self._app.clock
        end = None if timeout is None else clock.monotonic() + timeout.total_seconds()
        ended: dict[str, Job] = {}
        nothing = Wake()
        while True:
            for job_id in job_ids:
                if job_id not in ended and (job := self.get(job_id)).state in ENDED:
                    ended[job_id] = job
                    if seen is not None:
                        seen(job)
            if len(ended) == len(set(job_ids)):
                return [ended[job_id] for job_id in job_ids]
            left = None if end is None else end - clock.monotonic()
            if left is not None and left <= 0:
                raise WaitTimeout(
                    f"{len(set(job_ids)) - len(ended)} of {len(set(job_ids))} jobs have not ended in time"
                )
            clock.wait(nothing, WAIT_INTERVAL if left is None else min(WAIT_INTERVAL, left))

    def recover(self) -> tuple[HeldUp, ...]:
        """Give back the jobs of workers that died, now; what cannot be given back, and why."""
        recovery = self._app.recovery()
        return recovery.settle()

    def run_until_empty(self, *, concurrency: int = 1, queues: Sequence[str] | None = None) -> tuple[int, int]:
        """Run jobs in this process's worker until none is left that could run soon; how many completed and died.

        Waits for pending retries and for what is due within 24 hours. Handlers run in child processes.

        Args:
            concurrency: how many jobs run at most at once.
            queues: the queues to serve; None: all.

        Raises:
            InvalidInput: the concurrency is below 1.
        """
        worker = self._app.worker(count=concurrency, queues=queues, until="empty")
        summary = worker.run()
        return summary.completed, summary.dead

    def _add(self, new: Sequence[NewJob], *, if_absent: bool) -> list[Job]:
        app = self._app
        present: dict[str, Job] = {}
        while True:
            todo = [item for item in new if item.job.id not in present]
            try:
                added = app.store.add(todo, now=app.clock.now()) if todo else []
                break
            except DuplicateJob as error:
                if not if_absent:
                    raise
                present |= self._same_or_refuse(todo, error.ids)
        if app.notifications:
            for job in added:
                self._notify(EventKind.ENQUEUED, job)
        stored = present | {job.id: job for job in added}
        return [stored[item.job.id] for item in new]

    def _same_or_refuse(self, new: Iterable[NewJob], taken: Iterable[str]) -> dict[str, Job]:
        """The jobs that stand under the taken ids, where each is the same work as the new one of that id."""
        wanted = {item.job.id: item.job for item in new}
        same: dict[str, Job] = {}
        for job_id in taken:
            try:
                there = self.get(job_id)
            except JobNotFound:
                continue
            if _work(there) != _work(wanted[job_id]):
                raise DuplicateJob([job_id])
            same[job_id] = there
        return same

    def _refuse_taken(self, new: Iterable[NewJob], *, if_absent: bool) -> None:
        taken = []
        for item in new:
            if not item.generated:
                try:
                    self.get(item.job.id)
                    taken.append(item.job.id)
                except JobNotFound:
                    continue
        if taken and not if_absent:
            raise DuplicateJob(taken)

    def _change(self, job_id: str, decide: Callable[[Job], Change | None], kind: EventKind) -> Job:
        """Apply what `decide` makes of the job as it is; again, if somebody changed it between."""
        while True:
            before = self.get(job_id)
            change = decide(before)
            if change is None:
                return before
            try:
                job = self._app.store.change(before, change, now=self._app.clock.now())
            except JobChanged:
                continue
            if job.state is not State.PROCESSING:
                self._notify(kind, job)
            return job

    def _pause(self, queue: str, paused: bool, reason: str) -> None:
        if not QUEUE.fullmatch(queue):
            raise InvalidInput("queue", queue, "is no name of a queue")
        self._app.create_home()
        self._app.store.pause(queue, paused, reason=reason, now=self._app.clock.now())

    def _notify(self, kind: EventKind, job: Job) -> None:
        if self._app.notifications:
            run = 0 if kind is EventKind.ENQUEUED else job.run
            self._app.notifications.send(Event(kind, job, run, self._app.clock.now()))


def _work(job: Job) -> tuple[Any, ...]:
    return job.command, job.handler, json.dumps(job.payload, sort_keys=True)
