"""The store in memory is a store, and the scripted executor an executor."""

import pytest

from jobq.testing import MemoryStorage, MemoryStore
from jobq.testing.contracts import StoreContract
from jobq.testing.store_members import StoreMembers


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        storage = MemoryStorage()
        return lambda: MemoryStore(storage)

    def die(self, presence):
        presence.die()


class SpanningStore(MemoryStore):
    """It says that its workers are on several machines."""

    capabilities = MemoryStore.capabilities | {"hosts"}


class TestMembersOnSeveralMachines(StoreMembers):
    @pytest.fixture
    def open_store(self):
        storage = MemoryStorage()
        return lambda: SpanningStore(storage)

    def die(self, presence):
        presence.die()
