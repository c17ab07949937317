"""Workers on several machines that are cut off from their PostgreSQL server (F43, F44), in namespaces."""

import time

import pytest

from .hosts import LEASE, WITHIN, Beats, eventually, outcomes, settled, site
from .sizes import rounds

FAULTS = {"cable": "cut", "requests": "lose_requests", "answers": "lose_answers"}
"""By the name of a host what befalls its link."""


@pytest.fixture(scope="module", name="site")
def site_fixture():
    with site() as made:
        yield made


def beating(rest, tmp_path, host, name):
    """A job of a host's own queue."""
    return Beats(rest, tmp_path / f"{host.name}-{name}", "--queue", host.name)


def works_on(rest, tmp_path, host):
    """The worker of a host, the same as before, completes one more job."""
    job = Beats(rest, tmp_path / f"{host.name}-again", "--queue", f"{host.name}-again")
    job.go(1)
    (record,) = settled(rest, job)
    assert outcomes(record) == [("completed", host.name)], host.told()


def test_a_job_of_a_host_that_is_cut_off_for_longer_than_a_lease_is_taken_over_once(site, tmp_path, figure):
    """F43: one run goes on while its host is cut off, another one ends meanwhile. Neither counts once it is back."""
    takeovers, kills, overlaps = [], [], []
    total = rounds(short=1, full=20, long=100)
    for turn in range(total):
        here = tmp_path / str(turn)
        here.mkdir()
        with site.hosts(here, *FAULTS, "rest") as (*cut_off, rest):
            rest("status")  # makes the schema
            workers = [host.work("-n", "2", "-q", host.name, "-q", f"{host.name}-again") for host in cut_off]
            running = [beating(rest, here, host, "runs") for host in cut_off]
            ending = [beating(rest, here, host, "ends") for host in cut_off]
            eventually(lambda: all(job.begun(1) for job in running + ending), WITHIN)  # noqa: B023 - asked at once
            rest.work("-n", "6", *(word for host in cut_off for word in ("-q", host.name)))
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
            for host in cut_off:
                host.link.mend()
            for host in cut_off:
                works_on(rest, here, host)
            for job in running + ending:
                job.go(2)
            for host, job in zip(cut_off * 2, settled(rest, *running, *ending), strict=True):
                assert outcomes(job) == [("lost", host.name), ("completed", "rest")], host.told()
                assert (job["attempts"], job["run"]) == (0, 2)
            assert [job.starts() for job in running + ending] == [[1, 2]] * 6
            assert [worker.poll() for worker in workers] == [None] * 3
    assert max(overlaps) < LEASE / 6, overlaps
    assert max(kills) < LEASE, kills
    figure(
        "F43 cut off for longer than a lease",
        f"{len(kills)} hosts, {2 * len(kills)} jobs, lease {LEASE:g} s: killed {max(kills):.2f} s after the cut at "
        f"most, started elsewhere after {min(takeovers):.2f} to {max(takeovers):.2f} s, "
        f"{-max(overlaps):.2f} s apart at least; each taken over once, 0 late results taken",
    )
