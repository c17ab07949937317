"""Faults injected from outside into the real command line and its workers; see sizes.py, capabilities.py, history.py."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Cli, eventually, eventually_fixture, jobq, new_cli, start_worker, worker

from . import stores
from .capabilities import PROBES, need
from .hosts import Site, made_site
from .sizes import LIMITS, SIZE

__all__ = ["Cli", "eventually", "eventually_fixture", "jobq", "new_cli", "start_worker", "worker"]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A network with a PostgreSQL server, for hosts of a test's own."""
    with made_site() as made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that the size in force allows."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMITS[SIZE]))


@pytest.fixture(scope="session", params=stores.KINDS, ids=lambda kind: kind.name)
def store(request: pytest.FixtureRequest) -> stores.Kind:
    """Each store in turn; one whose plugin is not there is skipped."""
    kind: stores.Kind = request.param
    if kind.module in PROBES:
        need(kind.module)
    return kind


@pytest.fixture
def figure(request: pytest.FixtureRequest, figure: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """As everywhere; the name tells of the store where it is not the one that homes have unless they name one."""
    kind = request.node.callspec.params.get("store", stores.JSON) if hasattr(request.node, "callspec") else stores.JSON
    return lambda name, text: figure(name if kind is stores.JSON else f"{name}, on {kind.url}", text)
