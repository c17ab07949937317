"""What the records that a store exchanges with the kernel decide by themselves."""

from datetime import timedelta

import pytest

from jobq.job import State
from jobq.store import Claim, runs_alone
from jobq.testing import START, make_job

RUNNING = {"state": State.PROCESSING, "worker": "w1", "run": 3}


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, True),
        ({"priority": 7, "rev": 9, "cancel_requested_at": START}, True),
        ({"run": 4}, False),
        ({"run": 2}, False),
        ({"worker": "w2"}, False),
        ({"worker": None}, False),
        ({"state": State.PENDING}, False),
        ({"state": State.COMPLETED}, False),
        ({"created_at": START + timedelta(milliseconds=1)}, False),
    ],
)
def test_a_claim_holds_while_its_job_runs_with_that_worker_in_that_run(fields, held):
    claim = Claim(make_job("one", **RUNNING), "w1", "host")
    assert claim.holds(make_job("one", **(RUNNING | fields))) is held


@pytest.mark.parametrize(("losses", "alone"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_job_that_was_lost_twice_runs_alone(losses, alone):
    assert runs_alone(make_job("one", losses=losses)) is alone
