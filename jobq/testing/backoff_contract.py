"""The suite that every backoff must pass."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from jobq.backoff import Backoff
from jobq.executor import Kind, Outcome
from jobq.testing.clock import FixedRandom
from jobq.times import MAX_DURATION

OUTCOMES = (
    Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1),
    Outcome(kind=Kind.FAILURE, reason="ValueError: no such size", exception="ValueError", tail="line\n"),
    Outcome(kind=Kind.TIMEOUT, reason="timed out after 5s"),
    Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL"),
)


class BackoffContract:
    """What `jobq.backoff.Backoff` asks for; a subclass overrides the fixture `backoff`."""

    @pytest.fixture
    def backoff(self) -> Backoff:
        """What is tested."""
        raise NotImplementedError("a subclass of BackoffContract overrides the fixture backoff")

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: str(outcome.reason))
    @pytest.mark.parametrize("attempt", [1, 2, 3, 10, 100, 10_000, 2**40])
    def test_it_answers_with_a_wait_or_gives_up(self, backoff: Backoff, attempt: int, outcome: Outcome) -> None:
        for chance in (0.0, 0.5, 1 - 2**-53):
            wait = backoff.delay(attempt=attempt, outcome=outcome, random=FixedRandom(chance))
            assert wait is None or isinstance(wait, timedelta)
            assert wait is None or timedelta() <= wait <= MAX_DURATION

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: str(outcome.reason))
    def test_it_depends_on_nothing_but_what_it_is_given(self, backoff: Backoff, outcome: Outcome) -> None:
        def draw(order: range) -> dict[int, timedelta | None]:
            return {
                attempt: backoff.delay(attempt=attempt, outcome=outcome, random=random.Random(attempt))
                for attempt in order
            }

        assert draw(range(1, 20)) == draw(range(19, 0, -1))
