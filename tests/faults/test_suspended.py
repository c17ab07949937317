"""Workers that stand still (F12), sleep with their machine (F13), starve (F14) or take long to drain (F17), each for an
hour by every clock that counts one, beside others that work: nobody takes their jobs, and each has one outcome."""

import os
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

from jobq import processes
from tests.integration.test_signals import of_workers

from .capabilities import need
from .gates import LONG_ENOUGH, Gate, add, bench_in, go_on, hold
from .scene import RECOVER, eventually
from .sizes import rounds
from .stepping import Clocks

HOUR = 3600

SLEPT = ["unshare", "-T", "--boottime", str(HOUR), "--"]
"""What makes a program see a machine that has been up an hour longer."""


def stands_still(bench, gate):
    """F12: jobs end meanwhile, or afterwards, and one is cancelled."""
    never = Gate(bench.scene, f"{gate.path.name}-never")
    *gated, cancelled = ids = bench.give(gate.command(), gate.handler(), never.command())
    flow = bench.scene.enqueue(8)
    bench.scene.pause(0.0, 0.2)
    hold(bench.scene, bench.victim)
    if bench.scene.chance.random() < 0.5:
        gate.open()
        eventually(lambda: all(bench.scene.history.lines(each)[-1].what == "end" for each in gated))
    bench.clocks.pass_by(HOUR)
    bench.cancel(cancelled)
    bench.work_beside()
    assert bench.are_running(ids)
    go_on(bench.victim)
    gate.open()
    bench.queue.wait([*ids, *flow], timeout=LONG_ENOUGH)
    never.open()


def sleeps(bench, gate):
    """F13: jobs sleep too, and everything goes on in any order, with clocks that have gone on."""
    ids = bench.give(gate.command(timeout=600), gate.handler(timeout=600))
    (later,) = add(bench.queue, {"command": bench.scene.command("quick"), "delay": HOUR - 600})
    hold(bench.scene, bench.victim, bench.other)
    jobs = list(filter(None, map(processes.process, of_workers(bench.scene.jobq.home))))
    send_all(jobs, signal.SIGSTOP)
    bench.clocks.pass_by(HOUR)
    go_on(bench.other)
    fresh = bench.scene.start_worker(*RECOVER, prefix=SLEPT)
    bench.work_beside()
    bench.queue.wait([later], timeout=LONG_ENOUGH)
    assert fresh.wait(LONG_ENOUGH) == 0, bench.scene.errors()
    assert bench.are_running(ids)
    wakes = [lambda: go_on(bench.victim), lambda: send_all(jobs, signal.SIGCONT)]
    bench.scene.chance.shuffle(wakes)
    for wake in wakes:
        wake()
        bench.scene.pause(0.0, 0.1)
    gate.open()
    bench.queue.wait(ids, timeout=LONG_ENOUGH)


def send_all(targets, number):
    """Signal processes, but for those that have ended meanwhile."""
    for target in targets:
        processes.send(target, number)


def starves(bench, gate):
    """F14: a command runs, and a handler of which a thread computes and keeps all others of its process waiting."""
    ids = bench.give(gate.command(), gate.handler(burns=True))
    jobs = filter(None, map(processes.process, of_workers(bench.scene.jobq.home)))
    with starving([bench.victim, *jobs]):
        bench.clocks.pass_by(HOUR)
        bench.work_beside()
        assert bench.are_running(ids)
    gate.open()
    bench.queue.wait(ids, timeout=LONG_ENOUGH)


@contextmanager
def starving(targets):
    """Processes, with all of their threads, are as nice as can be among more that compute than there are CPUs."""
    renice(targets, 19)
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(1 + len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()
    with suppress(PermissionError):  # but for root they stay so, and are slower for it
        renice(targets, os.getpriority(os.PRIO_PROCESS, 0))


def renice(targets, value):
    for target in targets:
        for thread in Path(f"/proc/{target.pid}/task").glob("*"):
            with suppress(ProcessLookupError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, int(thread.name), value)


def drains(bench, gate):
    """F17: it was told to stop, and lets finish what it runs."""
    ids = bench.give(gate.command(), gate.handler())
    bench.victim.send_signal(signal.SIGTERM)
    eventually(lambda: {info.id: info.state for info in bench.queue.workers()}[bench.id] == "draining")
    bench.clocks.pass_by(HOUR)
    bench.work_beside()
    assert bench.are_running(ids)
    assert bench.victim.poll() is None, "it has not waited for its jobs"
    gate.open()
    assert bench.victim.wait(LONG_ENOUGH) == 0, bench.scene.errors()
    bench.start_victim()


KINDS = {"F12": stands_still, "F13": sleeps, "F14": starves, "F17": drains}


def test_a_worker_that_is_held_up_keeps_its_jobs(tmp_path, figure):
    """All kinds of it, one after the other, in any order."""
    need("proc", "compiler", "time namespaces")
    total = rounds(short=2, full=40, long=200)
    kinds = list(KINDS) * total
    with bench_in(tmp_path / "scene", Clocks(tmp_path / "clocks")) as bench:
        bench.scene.chance.shuffle(kinds)
        for number, kind in enumerate(kinds):
            KINDS[kind](bench, Gate(bench.scene, f"{number}"))
        jobs = bench.finish()
    held = 2 * len(kinds) + total
    what = "; ".join(f"{name} a worker {kind.__name__.replace('_', ' ')}" for name, kind in KINDS.items())
    figure("F12, F13, F14, F17", f"{total} times each: {what}; 0 of {held} jobs taken, {jobs} jobs in all")
