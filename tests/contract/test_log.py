"""The bundled notifier is a notifier, whatever its settings."""

import json

import pytest

import jobq_log
from jobq.testing.contracts import NotifierContract


@pytest.mark.parametrize("values", [{"log": {"level": "info"}}, {"log": {"file": "events.jsonl"}}], ids=["log", "file"])
class TestLog(NotifierContract):
    @pytest.fixture
    def notify(self):
        return jobq_log.jobq_notify

    @pytest.fixture
    def options(self):
        return jobq_log.jobq_options()

    def test_it_does_what_it_is_set_to(self, tell, settings, values, caplog):
        from jobq.events import Event, EventKind
        from jobq.testing import START, make_job

        with caplog.at_level("INFO", "jobq.events"):
            tell(Event(EventKind.ENQUEUED, make_job("one"), 0, START))
        if "file" in values["log"]:
            (line,) = (settings.home / "events.jsonl").read_text(encoding="utf-8").splitlines()
            assert json.loads(line)["id"] == "one"
        else:
            assert "one" in caplog.text
