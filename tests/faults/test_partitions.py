"""Workers on several machines that are cut off from their PostgreSQL server (F43, F44), in namespaces."""

import time

from .capabilities import need
from .hosts import LEASE, WITHIN, Beats, eventually, outcomes, settled
from .sizes import rounds
from .stepping import Clocks

FAULTS = {"cable": "cut", "requests": "lose_requests", "answers": "lose_answers"}
"""By the name of a host what befalls its link."""


def work(host, *args):
    """Start a worker of the queue that is called as its host, and of another one that no other host works on."""
    return host.work("-n", "2", "-q", host.name, "-q", f"{host.name}-again", *args)


def work_for(rest, *hosts):
    """Start a worker that takes over what runs on these hosts."""
    return rest.work("-n", "6", *(word for host in hosts for word in ("-q", host.name)))


def beating(rest, directory, host, name):
    """A job of a host's own queue."""
    return Beats(rest, directory / f"{host.name}-{name}", "--queue", host.name)


def work_on(rest, directory, workers):
    """The workers of these hosts, the same as before, complete one more job each."""
    jobs = [Beats(rest, directory / f"{host.name}-again", "--queue", f"{host.name}-again") for host in workers]
    for job in jobs:
        job.go(1)
    for host, record in zip(workers, settled(rest, *jobs), strict=True):
        assert outcomes(record) == [("completed", host.name)], host.told()
    assert {worker.poll() for worker in workers.values()} == {None}


def test_a_job_of_a_host_that_is_cut_off_for_longer_than_a_lease_is_taken_over_once(site, tmp_path, figure):
    """F43: one run goes on while its host is cut off, another one ends meanwhile. Neither counts once it is back."""
    takeovers, kills, overlaps = [], [], []
    total = rounds(short=1, full=20, long=100)
    for turn in range(total):
        here = tmp_path / str(turn)
        here.mkdir()
        with site.hosts(here, *FAULTS, "rest") as (*cut_off, rest):
            rest("status")  # makes the schema
            workers = {host: work(host) for host in cut_off}
            running = [beating(rest, here, host, "runs") for host in cut_off]
            ending = [beating(rest, here, host, "ends") for host in cut_off]
            eventually(lambda: all(job.begun(1) for job in running + ending), WITHIN)  # noqa: B023 - asked at once
            work_for(rest, *cut_off)
            began = time.monotonic()
            for host in cut_off:
                getattr(host.link, FAULTS[host.name])()
            for job in ending:
                job.go(1)
            eventually(lambda: all(job.ended(1) for job in ending), WITHIN)  # noqa: B023
            eventually(lambda: all(job.begun(2) for job in running + ending), WITHIN)  # noqa: B023
            for job in running:
                kills.append(job.last(1) - began)
                takeovers.append(job.first(2) - began)
                overlaps.append(job.last(1) - job.first(2))
            eventually(lambda: [site.connections(host) for host in cut_off] == [0, 0, 0], WITHIN)
            for host in cut_off:
                host.link.mend()
            work_on(rest, here, workers)
            for job in running + ending:
                job.go(2)
            for host, job in zip(cut_off * 2, settled(rest, *running, *ending), strict=True):
                assert outcomes(job) == [("lost", host.name), ("completed", "rest")], host.told()
                assert (job["attempts"], job["run"]) == (0, 2)
            assert [job.starts() for job in running + ending] == [[1, 2]] * 6
    assert max(overlaps) < 0, overlaps
    assert max(kills) < LEASE, kills
    figure(
        "F43 cut off for longer than a lease",
        f"{len(kills)} hosts, {2 * len(kills)} jobs, lease {LEASE:g} s: killed {max(kills):.2f} s after the cut at "
        f"most, started elsewhere after {min(takeovers):.2f} to {max(takeovers):.2f} s, "
        f"{-max(overlaps):.2f} s apart at least; each taken over once, 0 late results taken",
    )


def test_what_is_over_before_a_lease_costs_no_run(site, tmp_path, figure):
    """F43, F44: links that are back in time, and one on which every connection is reset again and again meanwhile."""
    storms, kept, released = 0, 0, 0
    total = rounds(short=1, full=20, long=100)
    for turn in range(total):
        here = tmp_path / str(turn)
        here.mkdir()
        with site.hosts(here, *FAULTS, "storm", "rest") as (*cut_off, storm, rest):
            rest("status")
            workers = {host: work(host) for host in (*cut_off, storm)}
            running = {host: beating(rest, here, host, "runs") for host in workers}
            eventually(lambda: all(job.begun(1) for job in running.values()), WITHIN)  # noqa: B023 - asked at once
            work_for(rest, *workers)
            began = time.monotonic()
            for host in cut_off:
                getattr(host.link, FAULTS[host.name])()
            mended = False
            while (now := time.monotonic()) < began + LEASE:
                storm.link.reset()
                storms += 1
                if not mended and now > began + LEASE / 4:
                    mended = True
                    for host in cut_off:
                        host.link.mend()
            work_on(rest, here, workers)
            for job in running.values():
                for run in range(1, 10):
                    job.go(run)
            records = dict(zip(workers, settled(rest, *running.values()), strict=True))
            for host in cut_off:
                assert outcomes(records[host]) == [("completed", host.name)], host.told()
                assert running[host].starts() == [1]
            *before, last = outcomes(records[storm])
            assert set(before) <= {("released", "storm"), ("lost", "storm")}, storm.told()
            assert (last[0], records[storm]["attempts"]) == ("completed", 0)
            assert running[storm].starts() == list(range(1, records[storm]["run"] + 1))
            kept += not before
            released += len(before)
    figure(
        "F43, F44 cut off for less than a lease",
        f"{3 * total} hosts for {LEASE / 4:g} s of a lease of {LEASE:g} s: 0 of {3 * total} jobs taken over; "
        f"{total} with {storms} resets of all connections: {kept} jobs went on, {released} runs handed back or lost, "
        "each job completed once",
    )


def test_a_host_whose_clock_is_wrong_loses_no_job(site, tmp_path, figure):
    """F47: ten minutes ahead of the server, and behind it, for longer than a lease beside a host whose clock is right."""
    need("compiler")
    total = rounds(short=1, full=5, long=20)
    for turn in range(total):
        here = tmp_path / str(turn)
        here.mkdir()
        with site.hosts(here, "ahead", "behind", "rest") as (*wrong, rest):
            rest("status")
            clocks = {host: Clocks(here / f"{host.name}-clock") for host in wrong}
            for host, seconds in zip(wrong, (600, -600), strict=True):
                clocks[host].set(wall=seconds)
                host.environ |= clocks[host].environ  # its enqueuers' too: a job is due by the clock of who adds it
                work(host)
            running = [beating(host, here, host, "runs") for host in wrong]
            eventually(lambda: all(job.begun(1) for job in running), WITHIN)  # noqa: B023 - asked at once
            work_for(rest, *wrong)
            began = time.monotonic()
            eventually(lambda: all(job.last(1) > began + 1.25 * LEASE for job in running), WITHIN)  # noqa: B023
            for job in running:
                job.go(1)
            for host, job in zip(wrong, settled(rest, *running), strict=True):
                assert outcomes(job) == [("completed", host.name)], host.told()
    figure("F47 clocks of hosts", f"{total} ten minutes ahead, {total} behind, for 1.25 leases: 0 jobs taken over")
