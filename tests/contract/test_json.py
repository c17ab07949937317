"""The bundled JSON-file store is a store, also while it compacts all the time."""

import os

import pytest

import jobq_json
from jobq.testing import START, make_context, make_job, make_settings, new
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


class TestJsonStoreThatCompacts(TestJsonStore):
    @pytest.fixture(autouse=True)
    def eager(self, monkeypatch):
        """Compact whenever the journal has some jobs in it."""
        monkeypatch.setattr("jobq_json.access.LEAST", 600)
        monkeypatch.setattr("jobq_json.access.BLIND_LIMIT", 1800)

    def test_it_does_compact(self, store, tmp_path):
        for number in range(20):
            store.add(new(make_job(f"j{number}", tags=("x" * 100,))), now=START)
            store.counts(now=START)
        runs = list((tmp_path / "home" / "queue").glob("jobs-*.jsonl"))
        assert [run.stat().st_size > 600 for run in runs] == [True]
