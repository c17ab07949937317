"""The bundled JSON-file store is a store."""

import os

import pytest

import jobq_json
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import StoreContract


class TestJsonStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        (provider,) = jobq_json.jobq_stores()
        assert provider.name == "json"
        context = make_context(tmp_path / "home")
        return lambda: provider.make(make_settings(), context)

    def die(self, presence):
        """What the kernel does when a process ends: its locks are free, its files stay."""
        os.close(presence._lock_fd)
        os.close(presence.jobs_fd)
        presence._lock_fd, presence.jobs_fd = -1, None
