"""The plugin is a plugin, and its store one like any other."""

import pytest

import jobq_postgres
from jobq.testing.contracts import PluginContract, StoreContract


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return jobq_postgres


class TestPostgres(StoreContract):
    @pytest.fixture
    def open_store(self, open_on):
        return open_on

    def die(self, presence):
        presence.die()
