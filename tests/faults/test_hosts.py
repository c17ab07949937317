"""A queue on several machines by way of PostgreSQL, in namespaces: what each one is told of the others, and upgrades."""

import json

import jobq

from .hosts import WITHIN, Beats, eventually, outcomes
from .sizes import rounds
from .versions import FIELDS, NEWER, Newer, Older, new_fields

AT_ONCE = 60
"""So many jobs are enqueued by each host at a time."""


def listed(host):
    """What `jobq worker list` shows: by the name of a host, the row of its worker."""
    head, *rows = host("worker", "list").stdout.splitlines()
    place = head.split().index("HOST")
    return {row.split()[place]: row for row in rows}


def test_every_host_is_told_of_what_another_one_runs(site, tmp_path):
    with site.hosts(tmp_path, "here", "there") as (here, there):
        here("status")
        job = Beats(here, tmp_path / "job", "--queue", "there")
        idle, busy = here.work("-q", "here"), there.work("-q", "there")
        eventually(lambda: job.begun(1) and len(listed(here)) == 2, WITHIN)
        for host in (here, there):
            eventually(lambda: job.id in listed(host)["there"], WITHIN)  # noqa: B023 - asked at once
            assert listed(host).keys() == {"here", "there"}
            status = host("status", "--json").json
            assert status["counts"]["processing"] == 1
            assert {worker["host"] for worker in status["workers"]} == {"here", "there"}
        assert "goes on until" in there("logs", job.id).stdout
        here("cancel", job.id)
        assert outcomes(here.job(job.id)) == [("cancelled", "there")]
        last = job.last(1)
        said = here("logs", job.id)
        assert "run 1 goes on until" in said.stdout
        assert "there keeps all of it" in said.stderr
        assert "keeps all of it" not in there("logs", job.id).stderr
        assert job.last(1) == last, "its process was gone when it was said to be cancelled"
        assert here("worker", "stop").stderr.count("Sent SIGTERM") == 1
        assert idle.wait(WITHIN) == 0
        slow = Beats(here, tmp_path / "slow", "--queue", "there")
        eventually(lambda: slow.begun(1), WITHIN)
        again = here.work("-q", "here")
        eventually(lambda: len(listed(here)) == 2, WITHIN)
        stop = here.start("worker", "stop", "--all-hosts", "--wait")
        assert again.wait(WITHIN) == 0
        assert (stop.poll(), busy.poll()) == (None, None), "a job of the other host is being waited for"
        slow.go(1)
        assert stop.wait(WITHIN) == 0
        assert busy.wait(WITHIN) == 0
        assert outcomes(here.job(slow.id)) == [("completed", "there")]
        assert "no worker runs" in here("worker", "list").stderr


class Fleet:
    """Hosts with a worker each, and what their versions have done.

    Attributes:
        added: the ids of all jobs.
        coloured: of those that the newer version has enqueued.
        versions: by a worker's id.
    """

    def __init__(self, hosts):
        self._hosts = hosts
        self.added, self.coloured, self.versions = [], set(), {}

    def set(self, host, side):
        """Let a host have a version from now on: its worker drains and another one begins."""
        host("worker", "stop", "--wait", timeout=WITHIN)
        host.environ.pop("PYTHONPATH", None)
        host.environ |= side.environ
        host.work("-n", "3")
        self.versions |= eventually(lambda: self._begun(host), WITHIN)

    def _begun(self, host):
        found = host("worker", "list", "--json").json
        return {each["id"]: each["version"] for each in found if each["host"] == host.name}

    def enqueue(self, host, side):
        """Let a host enqueue jobs of which some fail at first."""
        fails = {"command": ["sh", "-c", "test $JOBQ_RUN -gt 1"], "max_attempts": 3}
        specs = [fails if number % 3 == 0 else {"command": ["true"]} for number in range(AT_ONCE)]
        ids = host("enqueue", "-", input="".join(json.dumps(each) + "\n" for each in specs)).stdout.split()
        assert len(ids) == AT_ONCE
        self.added += ids
        self.coloured.update(ids if side.environ else [])

    def check(self):
        """Nothing is lost, and every host shows every field; how many of the newer version there are."""
        newest = {worker for worker, version in self.versions.items() if version == NEWER}
        counts = set()
        for host in self._hosts:
            lines = host("list", "--jsonl", "--limit", "10000000", timeout=WITHIN).stdout.splitlines()
            jobs = [json.loads(line) for line in lines]
            assert sorted(job["id"] for job in jobs) == sorted(self.added)
            assert {job["state"] for job in jobs} == {"completed"}
            assert {len(job["history"]) - job["attempts"] for job in jobs} == {1}, "0 runs lost"
            counts.add(new_fields(jobs, coloured=self.coloured, newest=newest))
        (fields,) = counts
        return fields


def test_hosts_are_upgraded_one_after_the_other_while_jobs_run(site, tmp_path, figure):
    newer = Newer(tmp_path / "newer", FIELDS)
    turns = rounds(short=1, full=20, long=100)
    with site.hosts(tmp_path, "one", "two") as hosts:
        one, two = hosts
        for host in hosts:
            host.environ |= {"JOBQ_BACKOFF_INITIAL": "0.01", "JOBQ_BACKOFF_JITTER": "false"}
        one("status")
        fleet = Fleet(hosts)
        sides = {one: Older, two: Older}
        steps = [(two, newer), (one, newer), (two, Older), (one, Older)] * turns
        for host in hosts:
            fleet.set(host, Older)
        for host, side in steps[: 2 if turns == 1 else None]:
            for each in hosts:
                fleet.enqueue(each, sides[each])
            fleet.set(host, side)
            sides[host] = side
        for each in hosts:
            fleet.enqueue(each, sides[each])
        one("wait", *fleet.added, timeout=300)
        assert set(fleet.versions.values()) == {jobq.__version__, NEWER}
        fields = fleet.check()
        one("worker", "stop", "--all-hosts", "--wait", timeout=WITHIN)
    figure(
        "F36 upgrades of hosts",
        f"{len(fleet.versions)} workers in turn, {len(fleet.added)} jobs; 0 lost, 0 of {fields} new fields lost",
    )
