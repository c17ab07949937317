"""The plugin is a plugin and a notifier, whatever it is told."""

import pytest

import jobq_webhook
from jobq.events import Event, EventKind
from jobq.queue import Queue
from jobq.testing import START, assert_enqueued, make_job
from jobq.testing.contracts import NotifierContract, PluginContract
from jobq_webhook.signing import new_secret


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return jobq_webhook


class TestNotifier(NotifierContract):
    @pytest.fixture
    def notify(self):
        return jobq_webhook.jobq_notify

    @pytest.fixture
    def options(self):
        return jobq_webhook.jobq_options()

    @pytest.fixture
    def values(self):
        return {
            "webhook": {
                "url": ["https://hooks.example.org/"],
                "secret": new_secret(),
                "events": [kind.value for kind in EventKind],
                "include": ["command", "error", "payload", "result"],
            }
        }

    def test_it_does_what_it_is_set_to(self, tell, settings):
        for kind in EventKind:
            tell(Event(kind, make_job("one"), 1, START))
        with Queue.open(home=settings.home) as queue:
            jobs = assert_enqueued(queue, handler="webhook", queue="notifications", count=len(EventKind))
        assert {job.payload["type"] for job in jobs} == {f"job.{kind.value}" for kind in EventKind}
