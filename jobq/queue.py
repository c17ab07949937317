"""The queue: everything that can be done to jobs but running them. What programs use, and the command line too."""

from __future__ import annotations

import os

from jobq import adding
from jobq.clock import Wake
from jobq.errors import InvalidInput, JobNotFound, JobqError, WaitTimeout
from jobq.job import ENDED, Job, State
from jobq.spec import checked_queue
from jobq.store import Query
from jobq.times import to_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import timedelta
    from types import TracebackType
    from typing import Any, Self

    from jobq.app import App
    from jobq.members import WorkerInfo
    from jobq.recovery import HeldUp
    from jobq.store import Counts, NewJob

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free everything, after waiting at most 2 s for notifiers."""
        self._app.close()

    def enqueue(self, *, allow_unknown_handler: bool = False, connection: object = None, **fields: Any) -> Job:
        """Enqueue one job; durable on return.

        Args:
            allow_unknown_handler: accept a handler that is not installed here.
            connection: as `enqueue_many` takes it.
            fields: `command` or `handler`; and of `id payload queue priority max_attempts run_at delay timeout cwd
                env tags meta on_lost retry_on no_retry_on`. Instants are aware datetimes, durations timedeltas or
                numbers of seconds.

        Raises:
            InvalidInput: a field breaks a rule.
            DuplicateJob: the id is taken.
            NotSupported: a connection was given, and the store cannot use one.
        """
        (job,) = self.enqueue_many([fields], allow_unknown_handler=allow_unknown_handler, connection=connection)
        return job

    def enqueue_many(
        self,
        specs: Iterable[object],
        *,
        allow_unknown_handler: bool = False,
        if_absent: bool = False,
        connection: object = None,
    ) -> list[Job]:
        """Enqueue jobs in order, each given as a mapping of fields; all of them are checked before any is stored.

        Args:
            specs: the jobs' fields, as `enqueue` takes them.
            allow_unknown_handler: accept handlers that are not installed here.
            if_absent: a job whose id exists with the same command or handler and payload is answered with, not an
                error.
            connection: to the store's own database, with a transaction of the application under way (for a store with
                the capability `transactions`). The jobs are there if and only if that is committed. Nobody is told that
                they were enqueued.

        Raises:
            InvalidInput: names the 1-based number of the first wrong one, where there are several; or the connection
                cannot be used.
            DuplicateJob: ids that are taken; nothing was stored.
            NotSupported: a connection was given, and the store cannot use one.
        """
        new = self.prepare(specs, allow_unknown_handler=allow_unknown_handler)
        return self.store_new(new, if_absent=if_absent, connection=connection)

    def prepare(self, specs: Iterable[object], *, allow_unknown_handler: bool = False) -> list[NewJob]:
        """Check specs and make jobs of them, without storing anything.

        Raises:
            InvalidInput: as `enqueue_many`; also where an id comes twice.
        """
        return adding.prepare(self._app, specs, allow_unknown_handler=allow_unknown_handler)

    def store_new(
        self,
        new: Sequence[NewJob],
        *,
        if_absent: bool = False,
        progress: Callable[[int], None] | None = None,
        connection: object = None,
    ) -> list[Job]:
        """Store jobs that `prepare` made, in order; up to 1,000 all or none, more in batches of 1,000.

        Args:
            new: the jobs.
            if_absent: as in `enqueue_many`.
            progress: called with the number of jobs stored so far.
            connection: as in `enqueue_many`.

        Raises:
            DuplicateJob: ids that are taken; nothing was stored, unless another process took one just now.
            InvalidInput, NotSupported: as `enqueue_many`, of the connection.
        """
        return adding.store_new(self._app, new, if_absent=if_absent, progress=progress, connection=connection)

    def get(self, job_id: str) -> Job:
        """The job of this whole id.

        Raises:
            JobNotFound: there is none.
        """
        return self._app.store.get(job_id)

    def get_many(self, job_ids: Sequence[str]) -> dict[str, Job]:
        """The jobs of those of these whole ids that there are, by id.

        Raises:
            InvalidInput: a text in place of the ids.
        """
        return self._app.store.get_many(_several("job_ids", job_ids))

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
        return _only(self.cancel_many([job_id]))

    def retry(self, job_id: str) -> Job:
        """Make a failed, dead or cancelled job pending now; a dead or cancelled one starts from 0 attempts.

        Raises:
            JobNotFound: there is no such job.
            WrongState: it is processing or completed.
        """
        return _only(self.retry_many([job_id]))

    def delete(self, job_id: str) -> Job:
        """Delete a job and its output; the job as it was.

        Raises:
            JobNotFound: there is no such job.
            WrongState: it is running.
        """
        return _only(self.delete_many([job_id]))

    def cancel_many(self, job_ids: Sequence[str]) -> dict[str, Job | JobqError]:
        """As `cancel` for each; by id the job after that, or what `cancel` would raise. A transaction for a thousand.

        Raises:
            InvalidInput: a text in place of the ids.
        """
        from jobq import changing

        return changing.cancel(self._app, _several("job_ids", job_ids))

    def retry_many(self, job_ids: Sequence[str]) -> dict[str, Job | JobqError]:
        """As `retry` for each; see `cancel_many`.

        Raises:
            InvalidInput: a text in place of the ids.
        """
        from jobq import changing

        return changing.retry(self._app, _several("job_ids", job_ids))

    def delete_many(self, job_ids: Sequence[str]) -> dict[str, Job | JobqError]:
        """As `delete` for each; see `cancel_many`.

        Raises:
            InvalidInput: a text in place of the ids.
        """
        from jobq import changing

        return changing.delete(self._app, _several("job_ids", job_ids))

    def prune(self, *, older_than: timedelta | float, states: frozenset[State] = frozenset({State.COMPLETED})) -> int:
        """Delete ended jobs of these states, and their output, that last changed that long ago; how many.

        Raises:
            InvalidInput: a state that is not an ended one.
        """
        from jobq import retention

        if not states <= ENDED:
            raise InvalidInput("state", ", ".join(sorted(states - ENDED)), "is no state in which a job has ended")
        return retention.prune(
            self._app.store, self._app.home.path, states, self._app.clock.now() - to_duration("older_than", older_than)
        )

    def pause(self, queue: str, *, reason: str = "") -> None:
        """Let no more jobs of this queue be claimed, until `resume`; running ones go on.

        A queue that is paused already keeps its reason where none is given.

        Raises:
            InvalidInput: that is no name of a queue.
        """
        checked_queue(queue)
        self._app.create_home()
        if reason or queue not in self.counts().paused:
            self._app.store.pause(queue, True, reason=reason, now=self._app.clock.now())

    def resume(self, queue: str) -> None:
        """Let jobs of this queue be claimed again.

        Raises:
            InvalidInput: that is no name of a queue.
        """
        if self._app.home.exists():
            self._app.store.pause(checked_queue(queue), False, now=self._app.clock.now())

    def wait(
        self,
        job_ids: Sequence[str],
        *,
        timeout: timedelta | float | None = None,
        seen: Callable[[Job], None] | None = None,
    ) -> list[Job]:
        """Return when every one of these jobs has ended (completed, dead or cancelled): the jobs, in order.

        Args:
            job_ids: whole ids.
            timeout: the longest to wait, a timedelta or seconds; None without end.
            seen: called with each job as it ends.

        Raises:
            InvalidInput: a text in place of the ids, or no duration.
            JobNotFound: one does not exist, or was deleted meanwhile.
            WaitTimeout: the time ran out.
        """
        clock = self._app.clock
        job_ids = _several("job_ids", job_ids)
        end = None if timeout is None else clock.monotonic() + to_duration("timeout", timeout).total_seconds()
        ended: dict[str, Job] = {}
        with Wake() as nothing:
            while True:
                begun = clock.monotonic()
                asked = [job_id for job_id in dict.fromkeys(job_ids) if job_id not in ended]
                found = self.get_many(asked)
                for job_id in asked:
                    if job_id not in found:
                        raise JobNotFound(job_id)
                    if found[job_id].state in ENDED:
                        ended[job_id] = found[job_id]
                        if seen is not None:
                            seen(found[job_id])
                missing = len(set(job_ids)) - len(ended)
                if not missing:
                    return [ended[job_id] for job_id in job_ids]
                now = clock.monotonic()
                pause = max(WAIT_INTERVAL, now - begun)  # so that asking for very many takes half of the time at most
                left = pause if end is None else end - now
                if left <= 0:
                    raise WaitTimeout(f"{missing} of {len(set(job_ids))} jobs have not ended in time")
                clock.wait(nothing, min(pause, left))

    def recover(self) -> tuple[HeldUp, ...]:
        """Give back the jobs of workers that died, now; what cannot be given back, and why."""
        from jobq.recovery import Recovery

        recovery = Recovery(self._app)
        return recovery.settle()

    def run_until_empty(self, *, concurrency: int = 1, queues: Sequence[str] | None = None) -> tuple[int, int]:
        """Run jobs in this process's worker until none is left that could run soon; how many completed and died.

        Waits for pending retries and for what is due within 24 hours. Handlers run in child processes.

        Args:
            concurrency: how many jobs run at most at once.
            queues: the queues to serve; None: all.

        Raises:
            InvalidInput: the concurrency is no number from 1, or the queues are no names of queues.
        """
        from jobq.worker import Worker

        served = None if queues is None else _several("queues", queues)
        summary = Worker(self._app, count=concurrency, queues=served, until="empty").run()
        return summary.completed, summary.dead


def _only(answers: dict[str, Job | JobqError]) -> Job:
    """The one answer; raised, if it is an error."""
    (answer,) = answers.values()
    if isinstance(answer, JobqError):
        raise answer
    return answer


def _several(field: str, names: Sequence[str]) -> Sequence[str]:
    """The names, if they are not one text, which would be taken for its characters."""
    if isinstance(names, str):
        raise InvalidInput(field, names, "must be a list of texts, not one text")
    return names
