"""`show`: what it tells of a job's times."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobq.cli.show import _times
from jobq.job import State
from jobq.testing import START, make_job


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, ""), (0.999, ""), (1, " (waited 1 s)"), (1.9, " (waited 1 s)"), (90.5, " (waited 1 m 30 s)"), (-5, "")],
)
def test_a_job_that_started_at_once_has_not_waited(seconds, told):
    job = make_job(state=State.PROCESSING, run=1, started_at=START + timedelta(seconds=seconds))
    started = dict(_times(job, START))["started"]
    assert started.endswith(told)
    assert ("waited" in started) == bool(told)


def test_of_a_later_run_nobody_says_that_it_waited():
    job = make_job(state=State.PROCESSING, run=2, started_at=START + timedelta(seconds=90))
    assert "waited" not in dict(_times(job, START))["started"]
