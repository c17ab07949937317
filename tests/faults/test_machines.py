"""Pids that are used again (F40), machines that share a store (F39), and machines that are started again (F41): nobody is
taken for somebody else, and no run begins beside the one before."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from jobq import processes

from .capabilities import need
from .machines import CliOn, Machine, children, kill, living, pid_there, stored
from .scene import DRAIN_SECONDS, PROGRAMS, RECOVER, eventually, ills, scene_in
from .sizes import rounds

"""What recovers others and claims nothing."""

LONG = 60_000_000
"""Microseconds for which a call is held up, unless it is let go before."""

TRACE = ["strace", "-f", "-D", "-qq", "-o", os.devnull]

PIDFD_OPEN = 434
"""The number of that call."""


@contextlib.contextmanager
def machines(directory, *names, **options):
    """Machines with these names that share a disk."""
    started = []
    try:
        started.extend(Machine(directory, name, **options) for name in names)
        yield started
    finally:
        for machine in started:
            machine.cut_power()


def both(scene):
    """A command and a handler whose first run goes on until it is killed."""
    return [{"command": scene.command("long")}, {"handler": "recorded", "payload": scene.payload("long")}]


def begun(scene, ids, count=1):
    """Wait until so many runs of these jobs have begun."""
    eventually(lambda: all([each.what for each in scene.history.lines(job)].count("start") >= count for job in ids))


def carriers(worker):
    """The living processes that a worker has started, wherever."""
    return processes.carriers(f"JOBQ_WORKER={worker.id}".encode())


def end_all(found):
    """Kill processes, and wait until they are gone."""
    for each in found:
        processes.send(each, signal.SIGKILL)
    for each in found:
        eventually(lambda: processes.process(each.pid) != each)  # noqa: B023 - asked at once


def drain(scene, machine):
    """Let everything come to its end there; the history and the records agree, and the doctor is content."""
    worker = scene.start_worker("--until-empty", "-n", "4", prefix=machine.prefix)
    assert worker.wait(DRAIN_SECONDS) == 0, scene.errors()
    assert scene.history.wrong(scene.records(), told=scene.told(), over=True) == []
    assert ills(CliOn(scene.jobq, machine)("doctor", "--json", code=None).json["checks"]) == []


def test_who_has_the_pid_of_a_dead_worker_or_job_is_let_be(tmp_path, figure):
    """F40: before anybody looks, the pids of a dead worker and of all that it had started belong to others."""
    need("pid namespaces")
    total, taken = rounds(short=1, full=60, long=500), 0
    with scene_in(tmp_path / "scene", seed=0) as scene, machines(tmp_path, "host") as (machine,):
        there = CliOn(scene.jobq, machine)
        for turn in range(total):
            victim = scene.start_worker("-n", "2", prefix=machine.prefix)
            ids = scene.add_all(*both(scene))
            begun(scene, ids)
            (info,) = living(scene.jobq.home)
            left = carriers(info)
            pids = {info.pid, *(pid_there(each.pid) for each in left)}
            kill(victim)
            end_all(left)
            for pid in pids:
                machine.take(pid)
            for name in (info.id, str(info.pid)):
                assert "no worker" in there("worker", "stop", "--now", name, code=3).stderr
            assert there("doctor", "--repair", "--json", code=5).out
            if turn % 2:
                there("worker", "start", *RECOVER)
                assert {job.state for job in stored(scene.jobq.home) if job.id in ids} == {"pending"}
            else:
                there("cancel", *ids)
            assert [machine.fared(pid) for pid in pids] == ["unharmed"] * len(pids), turn
            taken += len(pids)
        drain(scene, machine)
    figure("F40 pids used again", f"{total} dead workers, {taken} pids of theirs and their jobs; 0 foreign signals")


def traced(scene, machine, call, *args, only=None):
    """Start a command there that is held up at its first call of this name, on the file `only` if given."""
    path = [] if only is None else ["-P", only]
    hold = [*path, "-e", f"trace={call}", "-e", f"inject={call}:delay_enter={LONG}:when=1"]
    command = [*machine.prefix, *TRACE, *hold, *scene.jobq.command(*args)]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    options = {"env": scene.jobq.environ, "cwd": scene.jobq.directory, "stdin": null, "text": True}
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, **options)
    scene.jobq.processes.append(process)
    return process


def stands(pid, only):
    """Whether a thread stands before the call that is held up: pidfd_open, or the opening of a file."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):  # it goes on just now
            still = (task / "stat").read_text().rpartition(") ")[2].startswith("t")
            call = (task / "syscall").read_text().split()
            if still and only is None and call[0] == str(PIDFD_OPEN):
                return True
            if still and only is not None:
                with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                    memory.seek(int(call[2], 16))
                    if memory.read(len(only) + 1) == f"{only}\0".encode():
                        return True
    return False


def held_up(entered, only=None):
    """Wait until what was started by `traced` is held up; a function that lets it go on."""
    (pid,) = children(entered.pid)
    eventually(lambda: stands(pid, only))
    tracer = int(Path(f"/proc/{pid}/status").read_text().partition("TracerPid:")[2].split()[0])

    def let_go():
        assert Path(f"/proc/{tracer}/comm").read_text() == "strace\n"
        os.kill(tracer, signal.SIGKILL)

    return let_go


def hold_a_recovery(scene, machine, *args):
    """Somebody recovers a dead worker and is about to signal what it has found; the pids of that are free by then.

    How to let it go on, its process, and the pids.
    """
    victim = scene.start_worker(prefix=machine.prefix)
    ids = scene.add_all(both(scene)[0])
    begun(scene, ids)
    (info,) = living(scene.jobq.home)
    left = carriers(info)
    kill(victim)
    process = traced(scene, machine, "pidfd_open", *args, *(ids if args == ("cancel",) else ()))
    let_go = held_up(process)
    pids = [pid_there(each.pid) for each in left]
    end_all(left)
    return let_go, process, pids


def hold_a_stop(scene, machine, call):
    """Somebody stops a worker and is about to look at it, or to signal it; it is dead by then, and its pid is free."""
    victim = scene.start_worker(prefix=machine.prefix)
    eventually(lambda: living(scene.jobq.home))
    pid = pid_there(*children(victim.pid))
    only = f"/proc/{pid}/stat" if call == "openat" else None
    process = traced(scene, machine, call, "worker", "stop", str(pid), only=only)
    let_go = held_up(process, only)
    kill(victim)
    return let_go, process, [pid]


BETWEEN = {
    "a worker recovers": (hold_a_recovery, ("worker", "start", *RECOVER)),
    "worker stop is about to look": (hold_a_stop, ("openat",)),
    "cancel recovers": (hold_a_recovery, ("cancel",)),
    "worker stop has looked": (hold_a_stop, ("pidfd_open",)),
}


def test_who_gets_a_pid_between_the_look_and_the_signal_is_let_be(tmp_path, figure):
    """F40: a pid changes hands while it is being dealt with. A cgroup would have ended at once all that is in it."""
    need("pid namespaces", "strace")
    total, taken = rounds(short=2, full=60, long=500), 0
    with scene_in(tmp_path / "scene", seed=0) as scene, machines(tmp_path, "host", cgroups=False) as (machine,):
        for turn in range(total):
            name = list(BETWEEN)[turn % len(BETWEEN)]
            hold, words = BETWEEN[name]
            let_go, process, pids = hold(scene, machine, *words)
            for pid in pids:
                machine.take(pid)
            let_go()
            out, err = process.communicate(timeout=30)
            assert process.returncode == 0, (name, out, err)
            assert hold is not hold_a_stop or "is gone already" in out + err
            assert [machine.fared(pid) for pid in pids] == ["unharmed"] * len(pids), name
            taken += len(pids)
        drain(scene, machine)
    figure("F40 pids that change hands", f"{total} times between a look and a signal, {taken} pids; 0 foreign signals")


def start_as(scene, machine, pid, count):
    """Start a worker that has this pid there; it has joined on return. Its process out here, and what it tells."""
    machine.give_next(pid)
    worker = scene.start_worker("-n", str(count), prefix=machine.prefix)
    assert [pid_there(each) for each in children(worker.pid)] == [pid]

    def joined():
        found = living(scene.jobq.home)
        return next((each for each in found if (each.pid, each.host) == (pid, machine.name)), None)

    return worker, eventually(joined)


def test_machines_that_share_a_store_leave_each_others_dead_alone(tmp_path, figure):
    """F39: equal pids, and jobs that outlive their worker: what becomes of them is decided on their own machine."""
    need("pid namespaces")
    total, held = rounds(short=1, full=15, long=100), 0
    exclusive = ["sh", str(PROGRAMS / "exclusive")]
    with scene_in(tmp_path / "scene", seed=0) as scene, machines(tmp_path, "host-a", "host-b") as pair:
        for turn in range(total):
            one, other = pair if turn % 2 else reversed(pair)
            here, there = CliOn(scene.jobq, one), CliOn(scene.jobq, other)
            pid = 1000 * (1 + turn % 30)
            specs = [{"command": [*exclusive, *scene.command("long")[2:]]}] * 2 + both(scene)[1:]
            victim, dead = start_as(scene, one, pid, len(specs))
            orphans = scene.add_all(*specs)
            begun(scene, orphans)
            rest, alive = start_as(scene, other, pid, 8)
            assert dead.boot_id != alive.boot_id
            others = scene.add_all(*specs)
            begun(scene, others)
            kill(victim)
            why = f"it ran on {one.name}, and only a process there can look"
            eventually(lambda: why in scene.errors() or set(held_by(scene, dead)) != set(orphans))  # noqa: B023 - asked at once
            assert why in there("cancel", orphans[0], code=5).stderr
            there("wait", *scene.enqueue(5))
            assert set(held_by(scene, dead)) == set(orphans)
            assert carriers(dead)
            successor, _ = start_as(scene, one, pid, 8)
            here("wait", *orphans, code=None)
            ended = {job.id: (job.state, job.losses) for job in stored(scene.jobq.home) if job.id in orphans}
            assert ended.pop(orphans[0])[0] == "cancelled"
            assert set(ended.values()) <= {("completed", 0)}
            assert not carriers(dead)
            assert there("worker", "stop", "--now", str(pid)).stderr.count("Sent SIGQUIT") == 1
            assert rest.wait(30) == 143
            here("wait", *others)
            assert successor.poll() is None, "another machine's worker was signalled"
            here("worker", "stop", "--wait")
            assert successor.wait(30) == 0
            held += len(orphans)
        drain(scene, pair[0])
        starts = scene.history.starts()
    figure(
        "F39 machines",
        f"{total} workers dead, {held} jobs of theirs left to their machine; {starts} starts, 0 overlaps",
    )


def held_by(scene, worker):
    """The ids of the jobs that are processing with a worker, as the store has it."""
    return [job.id for job in stored(scene.jobq.home) if (job.state, job.worker) == ("processing", worker.id)]


def whole(workers):
    """All of a worker's files outlived the power cut."""


def wordless(workers):
    """What the worker told of itself did not."""
    for path in workers.glob("*.json"):
        path.unlink()


def empty(workers):
    """Nor its content."""
    for path in workers.glob("*.json"):
        path.write_bytes(b"")


def noteless(workers):
    """The notes of which handlers had begun were never written to the disk."""
    for path in workers.glob("*.runs"):
        path.write_bytes(bytes(path.stat().st_size))


CUTS = (noteless, whole, wordless, empty)

OFTEN, DEAD, CANCELLED = ("completed", ["lost", "completed"]), ("dead", ["lost"]), ("cancelled", ["cancelled"])
"""What becomes of a job whose worker was lost, with the outcomes of its runs: as a rule, with on_lost, and if asked to stop."""


def test_after_a_reboot_what_ran_is_lost_once_and_nothing_counted(tmp_path, figure):
    """F41: the lock files are those of before, and the first worker has the pid of the dead one."""
    need("pid namespaces")
    total, lost = rounds(short=1, full=24, long=200), 0
    # One loss that is counted would be the end of a job; who is asked to stop is still at it when the power is cut
    with scene_in(tmp_path / "scene", seed=0, **{"max-losses": "1", "kill-grace": "600"}) as scene:
        for turn in range(total):
            with machines(tmp_path, "host") as (machine,):
                start_as(scene, machine, 500, 5)
                deaf = ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *scene.command("long")]
                dead = [{**each, "on_lost": "dead"} for each in both(scene)]
                ids = scene.add_all(*both(scene), *dead, {"command": deaf})
                begun(scene, ids)
                asked = scene.jobq.start("cancel", ids[-1])
                eventually(lambda: any(job.cancel_requested_at for job in stored(scene.jobq.home)))
                asked.kill()
                asked.wait()
            CUTS[turn % len(CUTS)](scene.jobq.home / "workers")
            with machines(tmp_path, ("host", "host-renamed")[turn % 2]) as (machine,):
                assert "a worker that is gone" in CliOn(scene.jobq, machine)("why", ids[0]).stdout
                machine.give_next(500)
                workers = [scene.start_worker("--until-empty", "-n", "3", prefix=machine.prefix) for _ in range(2)]
                assert [worker.wait(DRAIN_SECONDS) for worker in workers] == [0, 0], scene.errors()
                if turn == total - 1:
                    drain(scene, machine)
            jobs = {job.id: job for job in stored(scene.jobq.home) if job.id in ids}
            what = [(jobs[each].state, [run.outcome for run in jobs[each].history]) for each in ids]
            assert what == [OFTEN] * 2 + [DEAD] * 2 + [CANCELLED]
            assert {(job.losses, job.attempts) for job in jobs.values()} == {(0, 0)}
            lost += len(ids)
    figure("F41 reboots", f"{total}; {lost} runs lost, each given back once and not counted")
