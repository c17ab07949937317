"""Does two operations on a store in two processes, of which the first may be stopped in the middle: two_at_once.py

faultycalls.c is preloaded into it. Each line of its input asks, as JSON:

    home       whose store it is
    names      who does it
    operations   what the first does, and the second: see OPERATIONS; null: nothing
    faults     what each of the two calls set_fault with
    warm       whether both have looked at the store before either begins

The second one begins when the first has ended or stopped. When it has ended too, or waits for the writers' lock, the
first one is continued. The answer is a line of JSON: what came of both (`answers`), whether the first `stopped`, had
the lock then (`locked`), and whether the second had to wait (`waited`).
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import jobq_json
from jobq import lifecycle, presence  # noqa: F401 - before the fork
from jobq.errors import Conflict, JobChanged, JobNotFound
from jobq.executor import Kind, Outcome
from jobq.job import ENDED
from jobq.store import Claim, Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new
from jobq_json import adding, checking, compaction, finding, pruning, transactions, view  # noqa: F401 - before the fork

(PROVIDER,) = jobq_json.jobq_stores()
C = ctypes.CDLL(None)
LIMIT = 60
"""Seconds after which this program ends, and with it those that it has begun, if an answer has not come."""


@dataclass
class Actor:
    """Who does an operation: a process, its handle on the store, and what it knew before it began.

    Attributes:
        name: of the worker that it is, and of the jobs that it makes.
        known: claims of which it has heard, by job id.
        member: its membership, if it is a worker.
    """

    name: str
    home: Path
    store: Any = None
    known: dict[str, Claim] = field(default_factory=dict)
    member: Any = None

    def open(self):
        context = make_context(self.home)
        self.store = PROVIDER.make(make_settings(), context)

    def learn(self):
        for job in self.store.find(Query()):
            if job.worker is not None:
                self.known[job.id] = Claim(job, job.worker, "host")

    def join(self):
        self.member = self.store.join(make_info(self.name, boot_id="boot", host="host"))


def ended(actor, kind):
    """The ends of all runs that are known, as their worker tells of them."""
    outcome = Outcome(kind=kind, reason="because", finished=START)
    return [
        Ended(each, lifecycle.after(each, outcome, now=START, delay=lambda *_: None)) for each in actor.known.values()
    ]


def claim(actor):
    answer = actor.store.claim(actor.member, wanted=Wanted(), limit=2, now=START)
    return [(each.job.id, each.run) for each in answer.claims]


def finish(actor, kind=Kind.SUCCESS):
    refused = actor.store.finish(actor.member, ended(actor, kind), now=START)
    return [(each.job.id, each.run) for each in refused]


def finish_and_claim(actor):
    answer = actor.store.claim(actor.member, wanted=Wanted(), limit=1, now=START, ended=ended(actor, Kind.FAILURE))
    return [[(each.job.id, each.run) for each in part] for part in (answer.claims, answer.refused, answer.cancelled)]


def recover(actor):
    """As who recovers does it: all that the dead hold is given back, then they are forgotten."""
    given_back = []
    for info, claims in actor.store.lost(now=START):
        if info.id.startswith("passing-"):
            raise AssertionError(f"{info.id} lives")
        for each in claims:
            change = lifecycle.lost(each, now=START, counted=True, max_losses=4)
            job = actor.store.change(each.job, lifecycle.settled(each.job, change), now=START)
            given_back.append((job.id, job.state))
        actor.store.forget(info)
    return given_back


def change(actor, job_id, decide):
    before = actor.store.get(job_id)
    new_one = decide(before, now=START)
    return before.state if new_one is None else actor.store.change(before, new_one, now=START).state


def delete(actor, job_id):
    if not actor.store.delete([actor.store.get(job_id)]):
        raise JobChanged(job_id)


def add(actor, *job_ids, generated=False):
    jobs = [make_job(job_id, tags=(actor.name,)) for job_id in job_ids]
    return [job.id for job in actor.store.add(new(*jobs, generated=generated), now=START)]


def members(actor):
    """Who lives, but for those that join or leave."""
    return [info.id for info in actor.store.workers() if not info.id.startswith("passing-")]


OPERATIONS = {
    "claim": claim,
    "finish": finish,
    "finish-and-claim": finish_and_claim,
    "release": lambda actor: finish(actor, Kind.RELEASED),
    "recover": recover,
    "cancel": lambda actor: change(actor, "waiting-1", lifecycle.cancel),
    "cancel-running": lambda actor: change(actor, "running-1", lifecycle.cancel),
    "retry": lambda actor: change(actor, "dead-1", lifecycle.retry),
    "retry-cancelled": lambda actor: change(actor, "cancelled-1", lifecycle.retry),
    "delete": lambda actor: delete(actor, "waiting-1"),
    "delete-done": lambda actor: delete(actor, "done-1"),
    "prune": lambda actor: sorted(actor.store.prune(states=ENDED, before=START + timedelta(seconds=1), limit=100)),
    "add": lambda actor: add(actor, "new"),
    "add-some": lambda actor: add(actor, "other", "new", "waiting-3"),
    "add-again": lambda actor: add(actor, "waiting-1"),
    "add-done": lambda actor: add(actor, "done-1"),
    "enqueue": lambda actor: add(actor, f"made-by-{actor.name}", generated=True),
    "compact": lambda actor: actor.store.access.compact(),
    "pause": lambda actor: actor.store.pause("default", True, reason="because", now=START),
    "look": lambda actor: [(job.id, job.state) for job in actor.store.find(Query())],
    "count": lambda actor: sorted(
        (str(state), number) for state, number in actor.store.counts(now=START).states.items()
    ),
    "check": lambda actor: actor.store.check(),
    "join": lambda actor: actor.store.join(make_info(f"passing-{actor.name}")) and None,
    "leave": lambda actor: actor.member.close(),
    "members": members,
}


def act(actor, operation, fault, warm, answers):
    """In a process of its own: prepare, stop, and do it when continued."""
    actor.open()
    actor.learn()
    if operation == "leave":
        actor.name = f"passing-{actor.name}"
    if operation in ("claim", "finish", "finish-and-claim", "release", "leave"):
        actor.join()
    if warm:
        actor.store.counts(now=START)
    else:
        actor.store.close()
        actor.open()
    os.kill(os.getpid(), signal.SIGSTOP)
    C.set_fault(fault.encode())
    try:
        answer = {"answer": OPERATIONS[operation](actor)}
    except (Conflict, JobNotFound) as error:
        answer = {"refused": type(error).__name__}
    except BaseException:
        answer = {"failed": traceback.format_exc()}
    C.set_fault(b"")
    os.write(answers, json.dumps(answer).encode())
    os.kill(os.getpid(), signal.SIGSTOP)  # a worker lives on


class Process:
    """One of the two.

    Attributes:
        over: whether it has done it.
    """

    def __init__(self, name, home, operation, fault, warm):
        self._answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            C.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it may be stopped when this program ends
            try:
                act(Actor(name, home), operation, fault, warm, answers)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(answers)
        self.over = False
        self.wait()

    def wait(self, options=0):
        """Wait until it has stopped, or see whether it has."""
        pid, status = os.waitpid(self.pid, os.WUNTRACED | options)
        if pid and not os.WIFSTOPPED(status):
            raise RuntimeError(f"it ended with {status}")
        self.over = self.over or bool(pid and select.select([self._answers], [], [], 0)[0])

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def answer(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        with open(self._answers, "rb") as file:
            return json.loads(file.read())


def is_locked(path):
    """Whether somebody holds the lock of this file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def play(home, names, operations, faults, warm):
    """One question's answer."""
    lock = home / "queue" / "queue.lock"
    told = {"answers": [], "stopped": False, "locked": False, "waited": False}
    ones = [
        Process(name, home, operation, fault, warm)
        for name, operation, fault in zip(names, operations, faults, strict=False)
        if operation is not None
    ]
    one, *others = ones
    one.go_on()
    one.wait()
    told["stopped"] = not one.over
    told["locked"] = is_locked(lock)
    for other in others:
        notes = Path(faults[1].split("\n")[1])
        tried = f" {os.fsencode(lock).hex()} \n"
        other.go_on()
        other.wait(os.WNOHANG)
        while not other.over and not told["waited"]:
            time.sleep(0.0005)
            lines = notes.read_text() if notes.exists() else ""
            tries = [line for line in lines.splitlines(keepends=True) if line.startswith("flock -1 ")]
            told["waited"] = sum(line.endswith(tried) for line in tries) > 1
            other.wait(os.WNOHANG)
    if told["stopped"]:
        one.go_on()
    for each in ones:
        if not each.over:
            each.wait()
    told["answers"] = [each.answer() for each in ones]
    return told


def main():
    """Answer until the input ends."""
    for line in sys.stdin:
        signal.alarm(LIMIT)
        asked = json.loads(line)
        print(json.dumps(play(Path(asked.pop("home")), **asked)), flush=True)
        signal.alarm(0)


if __name__ == "__main__":
    main()
