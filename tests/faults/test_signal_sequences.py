"""Signals and keys reach workers on terminals at any instant, in every order that people and systems send them (F16):
each worker ends as it should, its jobs are handed back or recorded, and nothing of it is left."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.integration.test_signals import WorkerOnTerminal, of_workers

from .capabilities import need
from .gates import LONG_ENOUGH, Gate, add, begun, client, offer_handler
from .scene import eventually, scene_in
from .sizes import rounds

SEQUENCES = {
    "TERM": (["TERM"], 0),
    "TERM, TERM": (["TERM", "TERM"], 0),
    "INT": (["ctrl-c"], 0),
    "INT, INT": (["ctrl-c", "ctrl-c"], 130),
    "INT, INT, INT": (["ctrl-c", "ctrl-c", "ctrl-c"], 130),
    "QUIT": (["QUIT"], 143),
    "HUP": (["hang up"], 0),
    "HUP under nohup": (["hang up", "HUP", "TERM"], 0),
    "TERM, QUIT": (["TERM", "QUIT"], 143),
}
"""What is done to a worker that runs jobs which do not end before, and its exit code."""

SHORT_JOBS = rounds(short=6, full=16, long=16)

HEARD = rb"stopping: (finishing|ending|killing)"


class Round:
    """One worker on a terminal with a queue of its own, in which jobs run that wait, and many short ones."""

    def __init__(self, scene, queue, name, chance):
        self.scene, self.queue, self.name, self.chance = scene, queue, name, chance
        self.acts, self.code = SEQUENCES[name]
        self.lane = f"{re.sub(r'[^A-Z]+', '-', name.upper())}-{chance.random()}"
        self.gate = Gate(scene, self.lane)
        waiting = [self.gate.command(priority=1), self.gate.handler(priority=1)]
        if self.acts.count("ctrl-c") == 3:  # one that the second one does not end
            ignoring = self.gate.command()["command"]
            waiting.append({"command": ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *ignoring], "priority": 1})
        kinds = [{"command": scene.command("quick")}, {"handler": "recorded", "payload": scene.payload("quick")}]
        short = [chance.choice(kinds)] * SHORT_JOBS
        ids = add(queue, *({**fields, "queue": self.lane} for fields in (*waiting, *short)))
        self.waiting, self.short = ids[: len(waiting)], ids[len(waiting) :]
        prefix = ["nohup"] if "nohup" in name else []
        self.worker = WorkerOnTerminal(scene.jobq, "-n", str(len(waiting) + 1), "-q", self.lane, prefix=prefix)

    def run(self):
        """Do all of it at instants that chance chooses, and look at the worker's end."""
        begun(self.scene, self.waiting)
        for number, act in enumerate(self.acts, 1):
            time.sleep(self.chance.uniform(0.0, 0.25))
            if self.worker.process.poll() is None:  # what there was to be killed may have ended by itself
                self._do(act, number)
        if self.code == 0:
            assert self.worker.process.poll() is None, "a drain waits for what runs"
            self.gate.open()
        assert self.worker.end() == self.code, self.worker.written
        aside = self.scene.jobq.directory / "nohup.out"
        written = self.worker.written + (aside.read_bytes() if aside.exists() else b"")
        assert b"Traceback" not in written
        assert b"Exception" not in written
        if self.worker.is_open:
            assert self.worker.settings_now() == self.worker.settings

    def _do(self, act, number):
        """Do one thing; a signal that comes before the one like it was heard is none, so that is waited for."""
        self.worker.do(act)
        if "nohup" in self.name and act != "TERM":
            (job_id,) = add(self.queue, {"command": self.scene.command("quick"), "queue": self.lane, "priority": 2})
            self.queue.wait([job_id], timeout=LONG_ENOUGH)
        elif self.worker.is_open:
            eventually(lambda: self._heard(number), LONG_ENOUGH)

    def _heard(self, number):
        told = len(re.findall(HEARD, self.worker.written))
        return told >= number or self.acts[:2] == ["TERM", "TERM"] or self.worker.process.poll() is not None

    def look(self, jobs):
        """What became of the jobs, when the worker was gone."""
        for job_id in self.waiting:
            job = jobs[job_id]
            ended = ("completed", "completed") if self.code == 0 else ("pending", "released")
            assert (job.state, job.history[-1].outcome) == ended, (self.name, job)
            assert job.run == 1, (self.name, job)
        for job_id in (*self.waiting, *self.short):
            job = jobs[job_id]
            assert job.state in ("completed", "pending"), (self.name, job)
            assert (job.attempts, job.losses) == (0, 0), (self.name, job)


def test_signals_at_any_instant(tmp_path, figure):
    need("proc")
    total, ends, handed_back = rounds(short=1, full=10, long=50), 0, 0
    with (
        scene_in(tmp_path / "scene", seed=0, **{"kill-grace": "600"}) as scene,
        client(scene) as queue,
        ThreadPoolExecutor(len(SEQUENCES)) as pool,
    ):
        offer_handler(scene)
        for turn in range(total):
            them = [Round(scene, queue, name, Random(f"{turn} {name}")) for name in SEQUENCES]
            try:
                for done in [pool.submit(each.run) for each in them]:
                    done.result()
                assert of_workers(scene.jobq.home) == []
                assert queue.workers() == []
            finally:
                for each in them:
                    each.gate.open()
                    each.worker.close()
            jobs = {job.id: job for job in queue.find()}
            for each in them:
                each.look(jobs)
            ends += len(them)
            mine = [jobs[job_id] for each in them for job_id in (*each.waiting, *each.short)]
            handed_back += sum(run.outcome == "released" for job in mine for run in job.history)
            scene.drain()
    figure("F16 signal sequences", f"{ends} in {len(SEQUENCES)} orders; {handed_back} runs handed back, 0 counted")
