"""The whole store contract once more, with a compaction after every single change: nothing may tell the difference."""

import os

import pytest

import jobq_json
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import StoreContract
from jobq_json import access, compaction


class TestCompactingJsonStore(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path, monkeypatch):
        monkeypatch.setattr(access, "LEAST", 0)
        monkeypatch.setattr(compaction, "worth_it", lambda view, size, least: True)
        (provider,) = jobq_json.jobq_stores()
        context = make_context(tmp_path / "home")
        return lambda: provider.make(make_settings(), context)

    def die(self, presence):
        os.close(presence._lock_fd)
        os.close(presence.jobs_fd)
        presence._lock_fd, presence.jobs_fd = -1, None

    @pytest.fixture(autouse=True)
    def sound_afterwards(self, open_store):
        """Whatever a test did, the files are sound and counted right after it."""
        yield
        handle = open_store()
        assert handle.check() == []
        handle.close()
