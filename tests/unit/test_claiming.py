"""What a worker asks its store for."""

import pytest

from jobq.claiming import ClaimRequest


class Busy:
    """Attempts under way.

    Args:
        running: how many; there is room for three.
    """

    lowest_ahead = None

    def __init__(self, running):
        self.running, self.free = running, 3 - running

    def __bool__(self):
        return self.running > 0

    def ahead(self):
        return None


@pytest.mark.parametrize(("running", "alone"), [(0, None), (1, False), (3, False)])
def test_what_must_run_alone_is_wanted_only_by_a_worker_that_runs_nothing(running, alone):
    request = ClaimRequest(Busy(running), queues=("mail",), handlers=frozenset({"send"}), may_claim=True, peek=False)
    assert (request.wanted.alone, request.limit) == (alone, 3 - running)
    assert (request.wanted.queues, request.wanted.handlers) == (("mail",), frozenset({"send"}))


@pytest.mark.parametrize("running", [0, 2])
def test_who_may_claim_nothing_asks_for_nothing(running):
    request = ClaimRequest(Busy(running), queues=None, handlers=frozenset(), may_claim=False, peek=True)
    assert request.limit == request.free == 0
