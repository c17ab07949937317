"""The store in memory is a store, and the scripted executor an executor."""

import pytest

from jobq.testing import MemoryStorage, MemoryStore
from jobq.testing.contracts import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        storage = MemoryStorage()
        return lambda: MemoryStore(storage)

    def die(self, presence):
        presence.die()
