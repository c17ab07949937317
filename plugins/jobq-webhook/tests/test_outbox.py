"""The kept handle: one event is enqueued once, whoever tells it, and it survives forks, changes and trouble."""

import threading

import pytest

import jobq_webhook
from jobq.errors import StoreError
from jobq.events import Event, EventKind
from jobq.queue import Queue
from jobq.store import Query
from jobq.testing import START, make_job, make_settings
from jobq.testing.forks import Fork
from jobq_webhook.options import OPTIONS
from jobq_webhook.outbox import Outbox

EVENT = Event(EventKind.DEAD, make_job("nightly"), 1, START)


@pytest.fixture
def settings(tmp_path, secret):
    def settings(name="home", **values):
        home = tmp_path / name
        home.mkdir(mode=0o700, exist_ok=True)
        table = {"url": ["https://a.example.org/", "https://b.example.org/"], "secret": secret} | values
        return make_settings(*OPTIONS, values={"webhook": table}, home=home)

    return settings


def enqueued(settings):
    with Queue.open(home=settings.home) as queue:
        return list(queue.find(Query()))


def test_an_event_is_one_job_for_each_url(settings):
    jobq_webhook.jobq_notify(EVENT, settings())
    jobs = enqueued(settings())
    assert {(job.handler, job.queue) for job in jobs} == {("webhook", "notifications")}
    assert len({job.payload["target"] for job in jobs}) == len({job.id for job in jobs}) == 2
    assert len({job.payload["id"] for job in jobs}) == 1


def test_an_event_that_is_told_twice_is_enqueued_once(settings):
    for _ in range(2):
        jobq_webhook.jobq_notify(EVENT, settings())
    assert len(enqueued(settings())) == 2


def test_retry_conditions_of_other_jobs_are_not_its_own(settings, tmp_path):
    (settings().home / "config.toml").write_text('retry-on = "7"\nno-retry-on = "timeout"\nmax-attempts = 1\n')
    jobq_webhook.jobq_notify(EVENT, settings(**{"max-attempts": 5}))
    assert {(job.retry_on, job.no_retry_on, job.max_attempts) for job in enqueued(settings())} == {((), (), 5)}


def test_what_is_not_chosen_is_not_told(settings):
    for kind in EventKind:
        jobq_webhook.jobq_notify(Event(kind, make_job("nightly"), 1, START), settings(url=["https://a.example.org/"]))
    assert sorted(job.payload["type"] for job in enqueued(settings())) == ["job.cancelled", "job.completed", "job.dead"]


@pytest.mark.parametrize("fields", [{"handler": "webhook"}, {"queue": "notifications"}])
def test_deliveries_are_not_told(settings, fields):
    jobq_webhook.jobq_notify(Event(EventKind.DEAD, make_job("one", **fields), 1, START), settings())
    assert enqueued(settings()) == []


def test_several_homes_are_served_in_turn(settings):
    for name in ("one", "two", "one"):
        jobq_webhook.jobq_notify(EVENT, settings(name))
    assert len(enqueued(settings("one"))) == len(enqueued(settings("two"))) == 2


def test_several_threads_tell_at_once(settings):
    def tell(number):
        for index in range(10):
            event = Event(EventKind.DEAD, make_job(f"j{number}-{index}"), 1, START)
            jobq_webhook.jobq_notify(event, settings(url=["https://a.example.org/"]))

    threads = [threading.Thread(target=tell, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(enqueued(settings())) == 40


def test_a_forked_process_has_a_handle_of_its_own_even_if_one_was_in_use(settings):
    jobq_webhook.jobq_notify(EVENT, settings())

    def tell(say):
        other = Event(EventKind.DEAD, make_job("of-the-child"), 1, START)
        jobq_webhook.jobq_notify(other, settings())
        say("told")

    with jobq_webhook.outbox.OUTBOX._lock, Fork(tell) as child:
        assert child.hear() == "told"
    assert len(enqueued(settings())) == 4


def test_after_trouble_the_next_event_is_enqueued_again(settings, monkeypatch):
    outbox, opened = Outbox(), []

    class Broken:
        def enqueue_many(self, specs, *, if_absent):
            raise StoreError("full")

        def close(self):
            opened.append("closed")

    class Sound(Broken):
        def enqueue_many(self, specs, *, if_absent):
            opened.append("enqueued")

    handles = iter([Broken(), Sound()])
    monkeypatch.setattr(Queue, "open", lambda **where: next(handles))
    with pytest.raises(StoreError):
        outbox.enqueue([{}], settings())
    outbox.enqueue([{}], settings())
    assert opened == ["closed", "enqueued"]
    outbox.close()
    assert opened[-1] == "closed"
