"""The handler: which answers are tried again, which are final, and that a job chooses neither URL nor secret."""

import pytest
from standardwebhooks import Webhook

from jobq.events import Event, EventKind
from jobq.testing import Failed, RecordingContext, Snoozed, make_job, run_now
from jobq.testing.clock import START
from jobq_webhook import delivery
from jobq_webhook.delivery import LONGEST_WAIT, MOST_WAITS, deliver
from jobq_webhook.messages import of_event
from jobq_webhook.signing import new_secret
from jobq_webhook.targets import parse

pytest_plugins = ["jobq.testing.fixtures"]

MESSAGE = of_event(Event(EventKind.DEAD, make_job("nightly"), 1, START), ())


@pytest.fixture
def write(jobq_home, secret):
    """Writes config.toml of the home."""

    def write(*urls, secret=secret, extra=""):
        listed = ", ".join(f'"{url}"' for url in urls)
        text = f'[webhook]\nurl = [{listed}]\nsecret = "{secret}"\nallow-private = true\n{extra}'
        (jobq_home / "config.toml").write_text(text)

    return write


def payload(url):
    return {"target": parse(url).name, **MESSAGE.record()}


def failed(url, **kwargs):
    with pytest.raises(Failed) as ended:
        run_now(deliver, payload(url), **kwargs)
    return str(ended.value), ended.value.retry


def test_a_message_is_delivered_and_the_status_kept(write, receiver, secret):
    write("http://localhost:1/other", receiver.url)
    assert run_now(deliver, payload(receiver.url)) == {"status": 204}
    ((_, headers, body),) = receiver.requests
    assert Webhook(secret).verify(body, headers)["type"] == "job.dead"


def test_each_try_has_the_same_id_and_body(write, receiver):
    write(receiver.url)
    run_now(deliver, payload(receiver.url))
    run_now(deliver, payload(receiver.url), context=RecordingContext(attempt=2))
    (_, first, one), (_, second, two) = receiver.requests
    assert (first["webhook-id"], one) == (second["webhook-id"], two)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 408, 422, 429, 500, 502, 503, 504])
def test_a_failure_is_tried_again(write, receiver, status):
    write(receiver.url)
    receiver.answers = [(status, {"Content-Length": "2"}, b"no")]
    reason, retry = failed(receiver.url)
    assert reason.startswith(f"localhost answered {status} ")
    assert retry


def test_one_that_is_gone_is_not_tried_again(write, receiver):
    write(receiver.url)
    receiver.answers = [(410, {}, b"")]
    assert failed(receiver.url) == ("localhost answered 410 Gone; it wants no more: take it out of webhook.url", False)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_may_ask_to_wait(write, receiver, status):
    write(receiver.url)
    receiver.answers = [(status, {"Retry-After": "120", "Content-Length": "0"}, b"")]
    context = RecordingContext()
    with pytest.raises(Snoozed) as snoozed:
        run_now(deliver, payload(receiver.url), context=context)
    assert snoozed.value.delay.total_seconds() == 120
    assert context.logged[0].endswith("it asks to wait for 120 s")


def test_it_may_not_ask_for_ever(write, receiver):
    write(receiver.url)
    receiver.answers = [(503, {"Retry-After": "999999999", "Content-Length": "0"}, b"")]
    with pytest.raises(Snoozed) as snoozed:
        run_now(deliver, payload(receiver.url), context=RecordingContext(attempt=2, run=1 + MOST_WAITS))
    assert snoozed.value.delay == LONGEST_WAIT
    context = RecordingContext(attempt=2, run=2 + MOST_WAITS)
    assert failed(receiver.url, context=context) == ("localhost answered 503 Service Unavailable", True)


def test_a_wait_that_comes_with_another_answer_is_none(write, receiver):
    write(receiver.url)
    receiver.answers = [(500, {"Retry-After": "120", "Content-Length": "0"}, b"")]
    assert failed(receiver.url)[1]


def test_nobody_there_is_tried_again(write):
    write("http://localhost:1/")
    assert failed("http://localhost:1/") == ("localhost cannot be reached: Connection refused", True)


class TestTheJobChoosesNothing:
    @pytest.mark.parametrize("target", ["URL", "NAME", None, 7, "localhost", ["NAME"]])
    def test_a_url_that_is_not_set_gets_nothing(self, write, receiver, target):
        write("http://localhost:1/")
        named = {"URL": receiver.url, "NAME": parse(receiver.url).name}
        target = named.get(target, target) if not isinstance(target, list) else target
        with pytest.raises(Failed, match=r"no longer in webhook\.url") as ended:
            run_now(deliver, {"target": target, "url": receiver.url, **MESSAGE.record()})
        assert not ended.value.retry
        assert receiver.requests == []

    @pytest.mark.parametrize("wrong", [{}, [], None, {"id": "a.b"}])
    def test_what_is_no_message_is_not_sent(self, write, receiver, wrong):
        write(receiver.url)
        with pytest.raises(Failed, match="no message") as ended:
            run_now(deliver, wrong)
        assert not ended.value.retry

    def test_the_settings_of_now_count(self, write, receiver, secret):
        write(receiver.url, secret="")
        reason, retry = failed(receiver.url)
        assert retry
        assert "nothing is sent unsigned" in reason
        write(receiver.url, secret=new_secret())
        run_now(deliver, payload(receiver.url))
        write(receiver.url)
        run_now(deliver, payload(receiver.url))
        _, headers, body = receiver.requests[-1]
        assert Webhook(secret).verify(body, headers)
        with pytest.raises(Exception, match="No matching signature"):
            Webhook(secret).verify(receiver.requests[0][2], receiver.requests[0][1])


def test_a_file_that_is_being_mended_is_waited_for(write, jobq_home, receiver):
    (jobq_home / "config.toml").write_text("[webhook")
    reason, retry = failed(receiver.url)
    assert "no valid TOML" in reason
    assert retry


def test_an_address_that_is_not_allowed_is_final(write, names, secret, jobq_home):
    names["hooks.example.org"] = [["169.254.169.254"]]
    write("https://hooks.example.org/")
    reason, retry = failed("https://hooks.example.org/")
    assert reason == "hooks.example.org is 169.254.169.254, where no message is sent"
    assert not retry


def test_no_reason_shows_the_secret_or_the_path(write, receiver, secret):
    write(receiver.url)
    receiver.answers = [(500, {"Content-Length": "0"}, b"")]
    reason, _ = failed(receiver.url)
    assert "key=k" not in reason
    assert secret not in reason


def test_settings_are_those_of_the_home_that_is_served(write, jobq_home, monkeypatch):
    write("https://hooks.example.org/")
    assert delivery.current_settings().home == jobq_home
    monkeypatch.setenv("JOBQ_WEBHOOK_TIMEOUT", "2s")
    assert delivery.current_settings()["webhook.timeout"].total_seconds() == 2
