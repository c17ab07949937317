"""The executor: hands commands to threads and handlers to warm children."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobq import orphans, processes
from jobq.executor import Ahead, Attempt, Executor, Outcome, Recovered, Running
from jobq_subprocess import cgroup
from jobq_subprocess.command import Command
from jobq_subprocess.environment import Environment
from jobq_subprocess.orphans import Orphans
from jobq_subprocess.outcomes import no_room, of_fault
from jobq_subprocess.supervision import NOW, Stop, Surroundings
from jobq_subprocess.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.clock import Wake
    from jobq.members import WorkerInfo
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq_subprocess.children import Children

CLOSE_SECONDS = 10.0
"""How long `close` waits for what was killed to be gone."""


class SubprocessExecutor(Executor):
    """Runs commands as processes, handlers in warm children.

    In a process that is a child subreaper (`jobq.processes.become_subreaper`) when this is made, whatever an attempt
    leaves behind is found at next to no cost; elsewhere every attempt's end looks through all processes.
    """

    def __init__(self, settings: Settings, context: Context) -> None:
        self._settings, self._context = settings, context
        self._environment = Environment(os.environb, settings["store"])
        self._around = Surroundings(context.clock, Orphans(), context.warn)
        self._threads = Threads("jobq-attempt", context.warn)
        self._commands: set[Command] = set()
        self._made_children: Children | None = None

    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> Running:
        if attempt.job.handler is not None:
            try:
                children = self._children
            except (RuntimeError, OSError) as error:  # the first attempt has to make what listens to children
                attempt.output.close()
                ended(no_room(error))
                return Stop(self._around.clock)
            return children.start(attempt, ended)
        wrapping = self._context.wrapping
        if wrapping is not None:
            wrapping.make()
        command = Command(self._around, self._environment, attempt, wrapping)

        def run(wake: Wake) -> None:
            try:
                outcome = command.run(wake)
            except Exception as error:  # a fault of this package costs an attempt, never the worker's slot
                outcome = of_fault(error)
            self._commands.discard(command)
            self._threads.free()
            ended(outcome)

        self._commands.add(command)
        try:
            self._threads.run(run)
        except (RuntimeError, OSError) as error:
            self._commands.discard(command)
            ended(no_room(error))
        return command.stop

    def ahead(self) -> Ahead | None:
        return None if self._made_children is None else self._made_children.ahead()

    def send_ahead(self, attempt: Attempt, started: Callable[[int], None], ended: Callable[[Outcome], None]) -> Running:
        return self._children.send_ahead(attempt, started, ended)

    def flush(self) -> None:
        if self._made_children is not None:
            self._made_children.flush()

    def take_back(self) -> None:
        if self._made_children is not None:
            self._made_children.take_back()

    def recover(self, worker: WorkerInfo) -> Recovered:
        left = cgroup.recover(worker.id) if worker.boot_id == processes.boot_id() else []
        recovered = orphans.recover(self._context.home / "workers", worker)
        if recovered.clean and left:
            pids = ", ".join(map(str, left))
            return Recovered(clean=False, why=f"processes of its jobs cannot be ended (pid {pids})")
        return recovered

    def close(self) -> None:
        for command in tuple(self._commands):
            command.stop.stop(NOW)
        if self._made_children is not None:
            self._made_children.close(CLOSE_SECONDS)
        self._threads.close(CLOSE_SECONDS)
        self._around.close()

    @property
    def _children(self) -> Children:
        if self._made_children is None:
            from jobq_subprocess.children import Children

            context = self._context
            self._made_children = Children(
                self._around,
                self._environment,
                self._threads,
                home=context.home,
                targets={name: handler.target for name, handler in context.handlers.items()},
                path=[str(context.home.parent / part) for part in self._settings["handlers-path"]],
                most_jobs=self._settings["child-max-jobs"],
                memory=self._settings["child-max-memory"],
                asked=context.asked,
                wrapped=context.wrapping is not None,
            )
        return self._made_children
