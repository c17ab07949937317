"""The part of the store contract that does what people, workers and reapers do, in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from jobq.testing.store_fixtures import StoreFixtures

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.store import Store


class StoreHistories(StoreFixtures):
    """Histories that hypothesis makes up; the same ones each time.

    Attributes:
        histories: how many.
        steps: the most steps of each.
        shrinks: whether one that fails is cut down to the shortest that does; for a store that syncs it takes minutes.
    """

    histories: ClassVar[int] = 40
    steps: ClassVar[int] = 80
    shrinks: ClassVar[bool] = False

    def test_it_answers_as_the_model_does_whatever_is_done(self, open_store: Callable[[], Store]) -> None:
        hypothesis = pytest.importorskip("hypothesis", reason="hypothesis, which makes up the histories, is missing")
        from hypothesis.stateful import run_state_machine_as_test

        from jobq.testing.store_machine import StoreMachine
        from jobq.testing.store_machine_moving import MovingMachine

        settings = hypothesis.settings(
            max_examples=self.histories,
            stateful_step_count=self.steps,
            phases=[each for each in hypothesis.Phase if self.shrinks or each is not hypothesis.Phase.shrink],
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        die = self.die
        store = open_store()
        kind: type[StoreMachine] = MovingMachine if "moves" in store.capabilities else StoreMachine
        store.close()

        class Machine(kind):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                super().__init__(open_store, die)

        run_state_machine_as_test(Machine, settings=settings)
