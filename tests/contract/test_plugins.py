"""Every bundled plugin is a plugin, by the door that is open to all; what its store declares is what it must."""

from importlib.metadata import entry_points

import pytest

from jobq.plugins import Plugins
from jobq.testing import MemoryStore, make_context, make_settings
from jobq.testing.contracts import PluginContract

BUNDLED = [entry for entry in entry_points(group="jobq") if entry.dist.name == "jobq"]


@pytest.mark.parametrize("entry", BUNDLED, ids=lambda entry: entry.name)
class TestBundled(PluginContract):
    @pytest.fixture
    def plugin(self, entry):
        return entry.load()


def test_a_store_in_memory_is_neither_shared_nor_durable():
    assert MemoryStore.capabilities == frozenset({"moves"})


def test_every_bundled_store_is_shared_by_processes_and_durable(tmp_path):
    plugins = Plugins()
    names = [name for plugin in plugins.all if plugin.distribution == "jobq" for name in plugin.offers.get("store", ())]
    assert names
    for name in names:
        store = plugins.provider("store", name).make(make_settings(), make_context(tmp_path / name))
        assert store.capabilities >= {"processes", "durable"}
        store.close()
