"""The suite that every notifier must pass."""

from __future__ import annotations

import copy
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobq.events import Event, EventKind
from jobq.job import Job, Run, State
from jobq.notify import SLOW_SECONDS
from jobq.providers import Option
from jobq.testing.builders import make_job, make_settings
from jobq.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobq.settings import Settings

RUN = Run(run=1, worker="w", host="h", started=None, finished=START, outcome="lost", error='odd: "\n\x1b[31m')

ODD_JOBS = (
    make_job("x" * 128, command="printf 'a\\n'\necho $'\\e[31m' \u202e\ufeff\x7f\t\x1b]0;title\x07"),
    make_job("argv", command=("", "a b", "'", "\n", "☃")),
    make_job("none", handler="h", payload=None),
    make_job("text", handler="h", payload="%s %(id)s {} {0} \\N{SNOWMAN} $HOME <b>&amp;\r\n"),
    make_job("numbers", handler="h", payload=[2**63 - 1, -(2**63), 1e300, 5e-324, True, None], result=0),
    make_job("large", handler="h", payload={"text": "ü" * (1 << 18), "": [{}] * 1000}),
    make_job("unknown", handler="h", extra={"from_a_newer_version": {"deep": [1, None]}, "event": 1, "time": "x"}),
    make_job("secret", env={"API_TOKEN": "s3cret", "EMPTY": ""}, tags=("naïve", "a,b"), meta={"a.b": {"c": []}}),
    make_job("failed", last_error="ValueError: \x1b[2J%d\nline\r\nline", exit_code=-9, history=(RUN,) * 20, attempts=3),
    Job(id="bare", command="true"),
)
"""Jobs that a notifier may be told of, and that one may stumble over."""


class NotifierContract:
    """What the hook `jobq_notify` asks for.

    A subclass overrides the fixture `notify` (the plugin's own function, with the arguments that it names) and,
    where it has settings, the fixtures `options` and `values`, so that it is active and does what it is there for.
    """

    @pytest.fixture
    def notify(self) -> Callable[..., None]:
        """What is tested: the function that is marked as the hook."""
        raise NotImplementedError("a subclass of NotifierContract overrides the fixture notify")

    @pytest.fixture
    def options(self) -> list[Option]:
        """The plugin's own settings, as its `jobq_options` hands them over."""
        return []

    @pytest.fixture
    def values(self) -> dict[str, Any]:
        """The values that are set, as config.toml would have them."""
        return {}

    @pytest.fixture
    def settings(self, options: list[Option], values: dict[str, Any], tmp_path: Path) -> Settings:
        """The settings in force; their home is there."""
        home = tmp_path / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return make_settings(*options, values=values, home=home)

    @pytest.fixture
    def tell(self, notify: Callable[..., None], settings: Settings) -> Callable[[Event], None]:
        """Calls the notifier as jobq does, with those of the arguments that it names."""
        names = notify.__code__.co_varnames[: notify.__code__.co_argcount]

        def tell(event: Event) -> None:
            given = {"event": event, "settings": settings}
            notify(**{name: given[name] for name in names if name in given})

        return tell

    @pytest.mark.parametrize("kind", list(EventKind), ids=str)
    def test_it_bears_every_kind_of_event(self, tell: Callable[[Event], None], kind: EventKind) -> None:
        for state in State:
            tell(Event(kind, make_job(state=state, worker="w"), 1, START))

    @pytest.mark.parametrize("job", ODD_JOBS, ids=lambda job: job.id[:12])
    def test_it_bears_odd_jobs(self, tell: Callable[[Event], None], job: Job) -> None:
        for kind in EventKind:
            tell(Event(kind, job, 0, START))

    def test_it_bears_times_far_away(self, tell: Callable[[Event], None]) -> None:
        for year in (1970, 9999):
            tell(Event(EventKind.COMPLETED, make_job(), 2**31, START.replace(year=year)))

    @pytest.mark.parametrize("job", ODD_JOBS, ids=lambda job: job.id[:12])
    def test_it_changes_nothing_of_what_it_is_told(self, tell: Callable[[Event], None], job: Job) -> None:
        event = Event(EventKind.DEAD, job, 1, START)
        before = copy.deepcopy(job)
        tell(event)
        assert (event.kind, event.run, event.time) == (EventKind.DEAD, 1, START)
        assert event.job is job
        assert job == before

    def test_it_returns_long_before_it_is_given_up(self, tell: Callable[[Event], None]) -> None:
        longest = 0.0
        for number in range(20):
            started = time.monotonic()
            tell(Event(EventKind.ENQUEUED, make_job(f"j{number}"), 0, START + timedelta(seconds=number)))
            longest = max(longest, time.monotonic() - started)
        assert longest < SLOW_SECONDS / 2, f"after {SLOW_SECONDS:g} s it would not be told any more"
