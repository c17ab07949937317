"""`jobq webhook`: what a person tries and is told."""

import pytest
from standardwebhooks import Webhook

pytest_plugins = ["jobq.testing.fixtures"]


@pytest.fixture
def write(jobq_home, secret):
    def write(*urls, secret=secret, extra="allow-private = true\n"):
        listed = ", ".join(f'"{url}"' for url in urls)
        (jobq_home / "config.toml").write_text(f'[webhook]\nurl = [{listed}]\nsecret = "{secret}"\n{extra}')

    return write


def test_a_message_is_sent_to_every_url(jobq_cli, write, receiver, make_receiver, secret):
    other = make_receiver()
    write(receiver.url, other.url)
    assert jobq_cli("webhook", "test").stdout == "localhost answered 204 No Content\n" * 2
    for each in (receiver, other):
        ((_, headers, body),) = each.requests
        assert Webhook(secret).verify(body, headers)["type"] == "webhook.test"


def test_a_url_can_be_tried_before_it_is_set(jobq_cli, write, receiver):
    write("http://localhost:1/")
    assert jobq_cli("webhook", "test", "--url", receiver.url).stdout == "localhost answered 204 No Content\n"


def test_one_that_does_not_take_it_is_told_and_the_others_are_tried(jobq_cli, write, receiver, make_receiver):
    other = make_receiver()
    receiver.answers = [(404, {"Content-Length": "6"}, b"no\x1b[2J")]
    write("http://localhost:1/", receiver.url, other.url)
    answer = jobq_cli("webhook", "test", code=5)
    assert answer.stdout.splitlines() == [
        "localhost cannot be reached: Connection refused",
        "localhost answered 404 Not Found: no [2J",
        "localhost answered 204 No Content",
    ]


@pytest.mark.parametrize(
    ("urls", "keywords", "told"),
    [
        ([], {}, "webhook.url: must be set, or --url given"),
        (["ftp://hooks.example.org/"], {}, "webhook.url: must begin with https://"),
        (["https://localhost/"], {"secret": ""}, "webhook.secret: must be set: nothing is sent unsigned"),
        (["https://localhost/"], {"secret": "CANARY"}, "webhook.secret: must be whsec_"),
        (["http://localhost/"], {"extra": ""}, "webhook.url: must begin with https://, unless"),
    ],
)
def test_wrong_settings_are_told(jobq_cli, write, urls, keywords, told):
    write(*urls, **keywords)
    answer = jobq_cli("webhook", "test", code=1)
    assert told in answer.stderr
    assert "CANARY" not in answer.stderr


def test_a_private_address_is_not_allowed_by_asking_for_it(jobq_cli, write):
    write("https://hooks.example.org/", extra="")
    answer = jobq_cli("webhook", "test", "--url", "https://127.0.0.1:1/", code=1)
    assert answer.stdout == "127.0.0.1 is an address, where no message is sent without webhook.allow-private\n"


def test_a_new_secret_is_one(jobq_cli, write, receiver):
    first, second = (jobq_cli("webhook", "secret").stdout.strip() for _ in range(2))
    assert first != second
    write(receiver.url, secret=first)
    jobq_cli("webhook", "test", "--quiet")
    ((_, headers, body),) = receiver.requests
    assert Webhook(first).verify(body, headers)


def test_the_commands_are_found(jobq_cli):
    assert "webhook" in jobq_cli("--help").stdout
    assert {"test", "secret"} <= set(jobq_cli("webhook", "--help").stdout.split())
