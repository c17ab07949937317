"""Fixtures for tests of plugins, and of programs that use jobq: `pytest_plugins = ["jobq.testing.fixtures"]`.

They need pytest. No entry point loads them: they are there for whoever asks.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jobq.queue import Queue
from jobq.testing.adhoc import AdHocPlugins
from jobq.testing.clock import FakeClock
from jobq.testing.commandline import CommandLine
from jobq.testing.inline import InlineQueue
from jobq.testing.listening import HeardEvents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def jobq_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home, private to this test, which `JOBQ_HOME` names; no other variable says anything to jobq."""
    for name in [name for name in os.environ if name.startswith("JOBQ_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "jobq-home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("JOBQ_HOME", str(home))
    return home


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when told."""
    return FakeClock()


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> AdHocPlugins:
    """`plugins.register(module or object)` makes a plugin of it for this test, without an entry point."""
    return AdHocPlugins(monkeypatch)


@pytest.fixture
def events(plugins: AdHocPlugins) -> HeardEvents:
    """What was announced by whatever was opened in this process after this fixture."""
    heard = HeardEvents()
    plugins.register(heard, "test-events")
    return heard


@pytest.fixture
def jobq_cli(jobq_home: Path) -> CommandLine:
    """`jobq_cli("add", "--", "true")` runs the command line in `jobq_home`; its exit code, stdout and stderr."""
    return CommandLine(jobq_home)


@pytest.fixture
def inline_queue(jobq_home: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[InlineQueue]:
    """A queue that runs jobs at enqueue. While it is there, `Queue.open()` answers with it, and to close it is nothing."""
    queue = InlineQueue(jobq_home, clock=clock)
    close = queue.close
    monkeypatch.setattr(queue, "close", lambda: None)
    monkeypatch.setattr(Queue, "open", lambda **_settings: queue)
    yield queue
    close()
