"""One attempt of a command: starts it, watches over it, tells how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING

from jobq_subprocess import outcomes
from jobq_subprocess.environment import Environment, encode, markers
from jobq_subprocess.progress import Reports
from jobq_subprocess.supervision import Stop, Supervision, Surroundings
from jobq_subprocess.tree import Ladder, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.clock import Wake
    from jobq.executor import Attempt, Outcome
    from jobq.job import Job
    from jobq.wrapping import Wrapping
    from jobq_subprocess.cgroup import Group


class Command:
    """An attempt of a command, to be run in a thread of its own.

    Attributes:
        stop: ends it.
    """

    def __init__(
        self, around: Surroundings, environment: Environment, attempt: Attempt, wrapping: Wrapping | None = None
    ) -> None:
        self.stop = Stop(around.clock)
        self._around, self._environment, self._attempt, self._wrapping = around, environment, attempt, wrapping
        self._more: Mapping[str, str] = {}
        self._memory_kills = 0

    def run(self, wake: Wake) -> Outcome:
        """How the attempt ended, once nothing of it is left. Raises nothing."""
        if self._wrapping is None:
            return self._run(wake)
        entered = self._wrapping.enter(self._attempt.job)
        self._more = entered.environment
        outcome = self._run(wake)
        entered.ended(outcome)
        return outcome

    def _run(self, wake: Wake) -> Outcome:
        attempt = self._attempt
        reports = None
        try:
            reports = Reports(attempt.progress)
            self._memory_kills = self._around.memory.count()
            process, group = self._start(reports)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return outcomes.of_start(error, attempt.job)
        else:
            return self._see_through(process, group, reports, wake)
        finally:
            if reports is not None:
                reports.close()
            attempt.output.close()

    def _start(self, reports: Reports) -> tuple[subprocess.Popen[bytes], Group | None]:
        job, lock = self._attempt.job, self._attempt.jobs_fd
        with self._around.low_numbers.lent(reports.inherited) as descriptor:
            begin = partial(
                start,
                arguments(job),
                environment=self._environment.of_command(self._attempt, progress=descriptor, more=self._more),
                directory=None if job.cwd is None else encode(job.cwd),
                inherited=(descriptor,) if lock is None else (descriptor, lock),
            )
            started = self._around.groups.start(job.worker or "", begin)
        reports.started()
        return started

    def _see_through(
        self, process: subprocess.Popen[bytes], group: Group | None, reports: Reports, wake: Wake
    ) -> Outcome:
        """Watch over what was started until nothing of it is left."""
        around = self._around
        tree = Tree(process.pid, markers(self._attempt), around.orphans, pipe=pipe_of(process), group=group)
        try:
            return self._watch(process, tree, reports, wake)
        except Exception as error:
            abandon(process, tree, around, wake)
            return outcomes.of_fault(error)
        finally:
            if group is not None:
                around.groups.release(group)

    def _watch(self, process: subprocess.Popen[bytes], tree: Tree, reports: Reports, wake: Wake) -> Outcome:
        attempt = self._attempt
        timeout = attempt.job.timeout
        ending = Supervision(
            self._around,
            process,
            tree,
            self.stop,
            output=attempt.output,
            reports=reports,
            deadline=None if timeout is None else self._around.clock.monotonic() + timeout.total_seconds(),
            kill_grace=attempt.kill_grace.total_seconds(),
        ).run(wake)
        tail = attempt.output.tail()
        if ending.timed_out:
            return outcomes.of_timeout(attempt.job, tail=tail, finished=ending.finished)
        if not ending.begun:
            return outcomes.UNBEGUN
        kills = self._around.memory.count() - self._memory_kills if ending.status else 0
        return outcomes.of_status(ending.status, command=True, tail=tail, finished=ending.finished, memory_kills=kills)


def arguments(job: Job) -> list[bytes]:
    """What is executed: /bin/sh for a string, the list itself for a list."""
    command = job.command or ()
    if not isinstance(command, str):
        return [encode(argument) for argument in command]
    options = [b"-c", b"--"] if command.startswith(("-", "+")) else [b"-c"]
    return [b"/bin/sh", *options, encode(command)]


def start(
    argv: list[bytes], *, environment: dict[bytes, bytes], directory: bytes | None, inherited: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start a process with a session of its own, nothing to read, and one pipe for all that it prints.

    Raises:
        OSError, ValueError, subprocess.SubprocessError: as `subprocess.Popen`.
    """
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        cwd=directory,
        env=environment,
        start_new_session=True,
        pass_fds=inherited,
    )


def pipe_of(process: subprocess.Popen[bytes]) -> int:
    """The inode number of the pipe that a process which `start` has started prints to."""
    return 0 if process.stdout is None else os.fstat(process.stdout.fileno()).st_ino


def abandon(process: subprocess.Popen[bytes], tree: Tree, around: Surroundings, wake: Wake) -> None:
    """Kill a process that cannot be watched, and its tree with it."""
    if process.stdout is not None:
        process.stdout.close()  # first: there may be no descriptor to look for the tree with
    if process.returncode is not None:
        return
    clock = around.clock
    try:
        ladder = Ladder(tree, clock.monotonic(), monotonic=clock.monotonic, warn=around.warn)
        pause = ladder.step()
        _kill_group(process)  # takes no descriptor
        while pause is not None:
            clock.wait(wake, pause)
            pause = ladder.step()
    except Exception as error:
        around.warn(outcomes.fault(error))
        _kill_group(process)
    process.wait()
    tree.reap()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
