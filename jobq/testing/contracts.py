"""The suites that plugins must pass: subclass the one for its kind, and `PluginContract`, and give it what to test.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: MyStore(tmp_path)

        def die(self, presence):
            presence.drop_lease()

Whatever is under test is used through its interface alone.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "jobq.testing.backoff_contract",
    "jobq.testing.executor_contract",
    "jobq.testing.notifier_contract",
    "jobq.testing.plugin_contract",
    "jobq.testing.store_claims",
    "jobq.testing.forks",
    "jobq.testing.store_fencing",
    "jobq.testing.store_fixtures",
    "jobq.testing.store_histories",
    "jobq.testing.store_jobs",
    "jobq.testing.store_machine",
    "jobq.testing.store_machine_moving",
    "jobq.testing.store_members",
    "jobq.testing.store_moving",
    "jobq.testing.store_queries",
    "jobq.testing.store_sharing",
)

from jobq.testing.backoff_contract import BackoffContract  # noqa: E402 - asserts are rewritten at the import
from jobq.testing.executor_contract import ExecutorContract  # noqa: E402
from jobq.testing.notifier_contract import NotifierContract  # noqa: E402
from jobq.testing.plugin_contract import PluginContract  # noqa: E402
from jobq.testing.store_claims import StoreClaims  # noqa: E402
from jobq.testing.store_fencing import StoreFencing  # noqa: E402
from jobq.testing.store_histories import StoreHistories  # noqa: E402
from jobq.testing.store_jobs import StoreJobs  # noqa: E402
from jobq.testing.store_members import StoreMembers  # noqa: E402
from jobq.testing.store_moving import StoreMoving  # noqa: E402
from jobq.testing.store_queries import StoreQueries  # noqa: E402
from jobq.testing.store_sharing import StoreSharing  # noqa: E402

__all__ = ["BackoffContract", "ExecutorContract", "NotifierContract", "PluginContract", "StoreContract"]


class StoreContract(
    StoreHistories, StoreSharing, StoreMoving, StoreMembers, StoreFencing, StoreClaims, StoreQueries, StoreJobs
):
    """Everything that `jobq.store.Store` asks of a store.

    A subclass overrides the fixture `open_store` (a function; each call of it gives a new handle on the storage of
    this one test, which is empty at first) and `die` (makes a member be gone as if its process had been killed).
    """

    # pytest begins with the last of the bases: what is simple comes first, and the histories are the end
