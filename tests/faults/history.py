"""What really happened, written down outside of the store by those it happened to; and whether the store says the same.

    HISTORY/clients    `asked NUMBER...` and `acknowledged NUMBER... ID...`, by whoever enqueues
    HISTORY/runs/ID    `start RUN PID START-TIME ATTEMPT` and `end RUN PID START-TIME`, by the job itself, and
                       `overlap RUN PID START-TIME` where it met a process of another run of its own that lived

Every line is one write to a file that is open for appending. That of a client that is killed just then may be cut off
where a page of the file ends: so it begins and ends with a line feed, and one without its full stop does not count.
"""

import signal
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobq import processes

from .programs import specs

ENDED = {"completed", "dead", "cancelled"}
UNCOUNTED = {"completed", "lost", "released", "cancelled"}
"""Outcomes of runs that are no failed attempts."""


@dataclass(frozen=True)
class Line:
    """One line about a run; `identity` is the pid and start time of the process that it tells of."""

    what: str
    run: int
    identity: tuple[int, int]


class History:
    """One history, in a directory that is made."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "runs").mkdir(parents=True)
        self._clients = directory / "clients"

    def spec(self, number: int) -> dict[str, Any]:
        """The fields of the job of this number."""
        return specs.spec(self.directory, number)

    def asked(self, numbers: Iterable[int]) -> None:
        """A client is about to enqueue these, all at once."""
        self._note(f"asked {' '.join(map(str, numbers))}")

    def acknowledged(self, numbers: Iterable[int], ids: Iterable[str]) -> None:
        """The client has been told so."""
        self._note(f"acknowledged {' '.join(map(str, numbers))} {' '.join(ids)}")

    def _note(self, line: str) -> None:
        with self._clients.open("a") as file:
            file.write(f"\n{line} .\n")

    def all_asked(self) -> list[list[int]]:
        """The numbers asked for, those of one call together."""
        return [[int(word) for word in words] for what, *words in self._client_lines() if what == "asked"]

    def all_acknowledged(self) -> dict[int, str]:
        """The id under which each number was acknowledged."""
        known = {}
        for what, *words in self._client_lines():
            if what == "acknowledged":
                half = len(words) // 2
                known |= dict(zip(map(int, words[:half]), words[half:], strict=True))
        return known

    def _client_lines(self) -> list[list[str]]:
        lines = self._clients.read_text().splitlines() if self._clients.exists() else []
        return [line.split()[:-1] for line in lines if line.endswith(" .")]

    def lines(self, job_id: str) -> list[Line]:
        """What the runs of a job have written, in the order of writing."""
        path = self.directory / "runs" / job_id
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [Line(what, int(run), (int(pid), int(start))) for what, run, pid, start, *_ in rows]

    def starts(self) -> int:
        """How many runs have begun."""
        return sum(
            line.what == "start" for path in (self.directory / "runs").iterdir() for line in self.lines(path.name)
        )

    def end(self, job_id: str) -> None:
        """Kill what is left of the runs of a job, with its children; on a sound system that is nothing."""
        told = {line.identity for line in self.lines(job_id)}
        leaders = {found.pid for found in processes.all_processes() if found.identity in told}
        for found in [*processes.all_processes()]:
            if found.pid in leaders or found.parent in leaders:
                processes.send(found, signal.SIGKILL)

    def end_all(self) -> None:
        """Kill what is left of all runs."""
        for path in (self.directory / "runs").iterdir():
            if any(_lives(line.identity) for line in self.lines(path.name)):
                self.end(path.name)

    def wrong(self, jobs: list[dict[str, Any]], *, told: Iterable[str] = (), over: bool = False) -> list[str]:
        """Where the records of all jobs contradict the history, one sentence each, by the names of docs/reliability.md.

        Args:
            jobs: as `jobq list --json` has them.
            told: the ids that workers have told to be completed, each as often as that was told.
            over: nothing works any more and everything must have come to its end.
        """
        wrong = [*self._enqueued(jobs)]
        for job in jobs:
            lines = self.lines(job["id"])
            wrong += [f"{sentence}: {job['id']} {job['history']} {lines}" for sentence in _outcomes(job, lines)]
            wrong += [f"{sentence}: {job['id']} {job['history']} {lines}" for sentence in _starts(job, lines)]
            if over and job["state"] not in ENDED:
                wrong.append(f"H6 it is still {job['state']}: {job['id']}")
            if over and any(line.what == "start" and _lives(line.identity) for line in lines):
                wrong.append(f"H3 a process of it is left: {job['id']} {lines}")
        completed = {job["id"] for job in jobs if job["state"] == "completed"}
        for job_id, count in Counter(told).items():
            if count > 1:
                wrong.append(f"H2 told {count} times to be completed: {job_id}")
            if job_id not in completed:
                wrong.append(f"H2 told to be completed and is not: {job_id}")
        return wrong

    def _enqueued(self, jobs: list[dict[str, Any]]) -> Iterable[str]:
        """H1: what was acknowledged is there; what was asked is there whole, together and once, or not at all."""
        by_number = defaultdict(list)
        for job in jobs:
            for tag in job["tags"]:
                by_number[int(tag[1:])].append(job)
        known = self.all_acknowledged()
        for number, job_id in known.items():
            if [job["id"] for job in by_number[number]] != [job_id]:
                yield f"H1 acknowledged as {job_id} and stored as {[job['id'] for job in by_number[number]]}: {number}"
        asked = self.all_asked()
        for numbers in asked:
            if len({len(by_number[number]) for number in numbers}) != 1:
                yield f"H1 stored in part: {numbers}"
        strangers = set(by_number) - {number for numbers in asked for number in numbers}
        if any(by_number[number] for number in strangers):
            yield f"H1 stored and never asked for: {sorted(strangers)}"
        for number, found in by_number.items():
            if len(found) > 1:
                yield f"H1 stored {len(found)} times: {number}"
            for job in found:
                if any(job[name] != value for name, value in self.spec(number).items()):
                    yield f"H1 not stored as it was asked for: {job}"


def _outcomes(job: dict[str, Any], lines: list[Line]) -> Iterable[str]:
    """H2: one outcome, and it is what happened."""
    outcomes = [run["outcome"] for run in job["history"]]
    numbers = [run["run"] for run in job["history"]]
    if numbers != sorted(set(numbers)) or any(number > job["run"] for number in numbers):
        yield "H2 its runs are not numbered in order"
    if outcomes.count("completed") != (job["state"] == "completed") or "completed" in outcomes[:-1]:
        yield f"H2 it is {job['state']} with these runs"
    if len(outcomes) < 20 and job["attempts"] != sum(outcome not in UNCOUNTED for outcome in outcomes):
        yield f"H2 it has {job['attempts']} failed attempts"
    if job["attempts"] > sum(specs.how(int(tag[1:])) == "fail" for tag in job["tags"]) and job["tags"]:
        yield f"H2 it cannot fail that often, and has {job['attempts']} failed attempts"
    ended = {line.run for line in lines if line.what == "end"}
    for run in job["history"]:
        if run["outcome"] == "completed" and run["run"] not in ended:
            yield "H2 completed without having come to its end"
    if job["state"] == "completed" and any(line.run > job["run"] for line in lines):
        yield "H2 it ran once more after it was completed"


def _starts(job: dict[str, Any], lines: list[Line]) -> Iterable[str]:
    """H3: one after the other. H4: none without a reason that is recorded."""
    if any(line.what == "overlap" for line in lines):
        yield "H3 a run of it met an earlier one that lived"
    runs = [line.run for line in lines]
    if runs != sorted(runs):
        yield "H3 a run of it wrote after a later one had begun"
    started = [line.run for line in lines if line.what == "start"]
    if len(started) != len(set(started)):
        yield "H4 one run of it began twice"
    if len(job["history"]) < 20 and len(started) > 1 + sum(run["outcome"] != "completed" for run in job["history"]):
        yield "H4 it began more often than is recorded"
    for run in job["history"]:
        if run["outcome"] == "lost" and "before it began" in (run["error"] or "") and run["run"] in started:
            yield "H4 it had begun, and the loss was not counted"


def _lives(identity: tuple[int, int]) -> bool:
    found = processes.process(identity[0])
    return found is not None and found.identity == identity and not found.dead
