"""`worker start`, `stop`, `list` and `logs`."""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, Group, first_failure, with_globals
from jobq.cli.streams import safe, show_json, talk
from jobq.cli.text import columns, local_time, one_line
from jobq.errors import NotFound, StoreMoved, WorkerNotFound
from jobq.files import read_private
from jobq.presence import JOB_VARIABLES, WORKER_VARIABLE
from jobq.spec import checked_queue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from jobq.members import WorkerInfo
    from jobq.worker import Worker


@click.group("worker", cls=Group, short_help="Start, stop and list workers.")
def worker_command() -> None:
    """Workers claim jobs and run them."""


@worker_command.command("start", short_help="Run jobs, here or in the background.")
@click.option("-n", "--count", type=click.IntRange(min=1), default=1, metavar="N", help="Jobs at once (1).")
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME", help="Serve only this queue; may be given again."
)
@click.option("--until-idle", "until", flag_value="idle", help="End when nothing is due.")
@click.option("--until-empty", "until", flag_value="empty", help="End when nothing is left that runs within 24 hours.")
@click.option(
    "--stop-grace", metavar="D", help="When stopped, let running jobs finish that long; default: without limit."
)
@click.option("--detach", is_flag=True, help="Start it in the background, and return when it works.")
@click.option("--name", metavar="NAME", help="A name for people.")
@click.option("--joined-fd", type=int, hidden=True)
@click.option("--log-of", hidden=True)
@with_globals
def start(
    state: Globals,
    count: int,
    queues: tuple[str, ...],
    until: str | None,
    stop_grace: str | None,
    detach: bool,
    name: str | None,
    joined_fd: int | None,
    log_of: str | None,
) -> int:
    """Claim jobs and run up to N of them at once, until stopped.

    Ctrl-C, TERM and HUP: finish what runs, claim nothing more. Again Ctrl-C, or QUIT: end the running jobs and hand
    them back. A third Ctrl-C kills them.

    While its queue is moved to another store (`jobq move`) it waits, and then goes on there.
    """
    if WORKER_VARIABLE in os.environ:
        _leave_job()
    for queue in queues:
        checked_queue(queue)
    if stop_grace is not None:
        state.flags["stop-grace"] = stop_grace
    if detach:
        from jobq.cli.detach import detach_worker

        return detach_worker(state)
    from jobq.cli.detach import greeting
    from jobq.cli.follow import follow, hear_again, take_over_log
    from jobq.cli.lines import Lines, told
    from jobq.processes import become_subreaper
    from jobq.worker import Worker

    become_subreaper()
    state.name_home()
    lines = Lines(quiet=state.quiet)
    worker = Worker(
        state.app,
        count=count,
        queues=queues or None,
        until=until,
        name=name,
        finished=None if state.quiet else lines,
        note=state.warn,
    )
    stopper = _Stopper(worker)
    stopper.install()

    follows = log_of is not None
    if follows:
        hear_again()

    def joined(info: WorkerInfo) -> None:
        nonlocal follows
        detached = log_of is not None and take_over_log(state.app.home.path / "workers", log_of, info.id)
        follows = True
        if joined_fd is None and not detached:
            state.note(greeting(info, "Ctrl-C"))
            return
        talk(greeting(info, "`jobq worker stop`"))  # with --quiet too: its log is found by this line
        if joined_fd is not None:
            os.write(joined_fd, f"{info.id}\n".encode())
            os.close(joined_fd)

    try:
        with lines:
            summary = worker.run(joined)
    except StoreMoved as moved:
        if not follows:  # it was started with a store that the queue had left before
            raise
        follow(state, moved.url, worker.info.id, lambda: worker.stopping)
        summary = worker.summary
    state.note(told(summary))
    if summary.forced:
        return 130 if stopper.last is signal.SIGINT else 143
    return 0


@worker_command.command("stop", short_help="Stop workers.")
@click.argument("workers", nargs=-1, metavar="[WORKER|PID]...")
@click.option("--now", is_flag=True, help="End running jobs and hand them back, instead of letting them finish.")
@click.option("--wait", is_flag=True, help="Return when the workers are gone.")
@click.option("--all-hosts", is_flag=True, help="Those on other machines too, by way of the store.")
@with_globals
def stop(state: Globals, workers: tuple[str, ...], now: bool, wait: bool, all_hosts: bool) -> int:
    """Tell workers to finish what they run and end; all of this host's, or those named by id, name or pid."""
    from jobq.draining import DRAIN, NOW
    from jobq.processes import host

    number = signal.SIGQUIT if now else signal.SIGTERM
    reached = [info for info in state.queue.workers() if all_hosts or info.host == host()]
    told: dict[str, WorkerInfo] = {}

    def tell(info: WorkerInfo) -> None:
        if info.id in told:
            return
        told[info.id] = info
        if info.host != host():
            state.app.store.ask_to_stop(info, NOW if now else DRAIN)
            state.note(f"Asked worker {info.pid} on {one_line(info.host)} to stop")
        elif _send(info, number):
            state.note(f"Sent {number.name} to worker {info.pid}")
        else:
            state.note(f"worker {info.pid} is gone already")

    def tell_named(name: str) -> None:
        for info in _named(reached, name, everywhere=all_hosts):
            tell(info)

    if workers:
        code = first_failure(functools.partial(tell_named, name) for name in workers)
    else:
        if not reached:
            state.note("no worker runs" if all_hosts else "no worker runs here")
        code = first_failure(functools.partial(tell, info) for info in reached)
    if wait:
        _await_gone(state, set(told))
    return code


@worker_command.command("list", short_help="List the live workers.")
@click.option("--json", "as_json", is_flag=True, help="Print their records.")
@with_globals
def list_(state: Globals, as_json: bool) -> None:
    """List the live workers and what they run; the host of each where there are several."""
    from jobq.processes import host

    workers = state.queue.workers()
    if as_json:
        show_json([info.record() for info in workers])
        return
    if not workers:
        state.note("no worker runs")
        return
    elsewhere = any(info.host != host() for info in workers)
    rows = [("ID", "NAME", *(("HOST",) if elsewhere else ()), "PID", "STATE", "RUNNING", "QUEUES", "SINCE")]
    for info in workers:
        running = ", ".join(item.job for item in info.running) or "-"
        queues = "all" if info.queues is None else ",".join(info.queues)
        busy = f"{len(info.running)}/{info.count} {running}"
        place = (one_line(info.host),) if elsewhere else ()
        since = local_time(info.started)
        rows.append((info.id, info.name, *place, str(info.pid), info.state, busy, queues, since))
    click.echo("\n".join(columns(rows, sys.stdout, flexible=rows[0].index("RUNNING"))))


@worker_command.command("logs", short_help="Show what a detached worker said.")
@click.argument("worker", required=False)
@with_globals
def logs(state: Globals, worker: str | None) -> None:
    """Show the log of a detached worker, living or gone: the latest of those named by name, pid or id, or of all.

    Of an id the first 4 characters will do.
    """
    from jobq.cli.detach import find_log

    living = [] if worker is None else [info.id for info in state.queue.workers() if _is_called(info, worker)]
    path = find_log(state.app.home.path / "workers", worker, living)
    if path is None:
        raise NotFound("there is no log of " + (f"worker {one_line(worker)}" if worker else "a detached worker"))
    text = read_private(path).decode("utf-8", "backslashreplace")
    click.echo(safe(text, sys.stdout), nl=False)


class _Stopper:
    """Turns signals into what the worker is told; only sets flags and rings, as signal handlers must."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._interrupts = 0
        self.last = signal.SIGTERM

    def install(self) -> None:
        """Take the signals over; a HUP that was ignored from the start (nohup) stays so."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self._heard)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._heard)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        from jobq.draining import DRAIN, KILL, NOW

        del frame
        self.last = signal.Signals(number)
        if number == signal.SIGINT:
            self._interrupts += 1
            self._worker.stop((DRAIN, NOW, KILL)[min(self._interrupts, 3) - 1])
        else:
            self._worker.stop(NOW if number == signal.SIGQUIT else DRAIN)


def _is_called(info: WorkerInfo, name: str) -> bool:
    return name in (info.id, info.name, str(info.pid))


def _named(workers: Sequence[WorkerInfo], name: str, *, everywhere: bool) -> list[WorkerInfo]:
    found = [info for info in workers if _is_called(info, name)]
    if not found:
        raise WorkerNotFound(name, everywhere=everywhere)
    return found


def _send(info: WorkerInfo, number: signal.Signals) -> bool:
    """Signal a worker that holds its lock, and so is alive; False where it has ended just now."""
    from jobq.processes import process, send, visible

    if visible():
        found = process(info.pid)
        return found is not None and found.start_time == info.start_time and send(found, number)
    try:
        os.kill(info.pid, number)
    except ProcessLookupError:
        return False
    return True


def _await_gone(state: Globals, ids: set[str]) -> None:
    from jobq.clock import Wake

    with Wake() as nothing:
        while ids & {info.id for info in state.queue.workers()}:
            state.app.clock.wait(nothing, 0.05)


def _leave_job() -> None:
    """A worker started from inside a job must not be taken for a part of it: start anew, without its marks.

    The environment that others can see is fixed at exec, and inherited descriptors hold the outer worker's lock.
    """
    environment = {name: value for name, value in os.environ.items() if name not in JOB_VARIABLES}
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 1 << 20))
    os.execve(sys.executable, [sys.executable, "-P", "-m", "jobq", *sys.argv[1:]], environment)
