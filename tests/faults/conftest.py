"""Faults injected from outside into the real command line and its workers; see sizes.py, capabilities.py, history.py."""

from pathlib import Path

import pytest

from tests.integration.conftest import Cli, eventually, eventually_fixture, jobq, new_cli, start_worker, worker

from .sizes import LIMITS, SIZE

__all__ = ["Cli", "eventually", "eventually_fixture", "jobq", "new_cli", "start_worker", "worker"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the time that the size in force allows."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMITS[SIZE]))
