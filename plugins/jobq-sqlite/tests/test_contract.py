"""The plugin is a plugin, and its store a store."""

import pytest

import jobq_sqlite
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import PluginContract, StoreContract


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return jobq_sqlite


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        (provider,) = jobq_sqlite.jobq_stores()
        context = make_context(tmp_path / "home")
        return lambda: provider.make(make_settings(), context)

    def die(self, presence):
        presence.close(clean=False)
