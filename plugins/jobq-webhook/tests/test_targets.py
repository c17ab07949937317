"""URLs are checked before anything is sent, and no error shows one: it may hold a secret."""

import pytest

from jobq.errors import InvalidInput
from jobq_webhook.targets import parse, targets


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://hooks.example.org", ("https", "hooks.example.org", 443, "/", "hooks.example.org")),
        ("https://Hooks.Example.org:443/a?b=c", ("https", "hooks.example.org", 443, "/a?b=c", "hooks.example.org")),
        ("https://hooks.example.org:8443/#x", ("https", "hooks.example.org", 8443, "/", "hooks.example.org:8443")),
        ("http://127.0.0.1:80/", ("http", "127.0.0.1", 80, "/", "127.0.0.1")),
        ("https://[2606:4700::1]:444?x", ("https", "2606:4700::1", 444, "/?x", "[2606:4700::1]:444")),
    ],
)
def test_the_parts_of_a_url(url, parts):
    target = parse(url)
    assert (target.scheme, target.host, target.port, target.path, target.authority) == parts


@pytest.mark.parametrize(
    "url",
    [
        "",
        "SECRET",
        "hooks.example.org/SECRET",
        "//hooks.example.org/SECRET",
        "ftp://hooks.example.org/SECRET",
        "file:///SECRET",
        "gopher://hooks.example.org/SECRET",
        "https:///SECRET",
        "https://user:SECRET@hooks.example.org/",
        "https://SECRET@hooks.example.org/",
        "https://good.example.org\\@hooks.example.org/SECRET",
        "https://hooks.example.org\\SECRET",
        "https://hooks.example.org:0/SECRET",
        "https://hooks.example.org:99999/SECRET",
        "https://hooks.example.org:x/SECRET",
        "https://[::1/SECRET",
        "https://[fe80::1%25eth0]/SECRET",
        "https://hooks.example.org/SECRET\r\nX-Forged: 1",
        "https://hooks.example.org/SECRET HTTP/1.1",
        "https://hooks\t.example.org/SECRET",
        "https://hooks.example.org\x00/SECRET",
        "https://hööks.example.org/SECRET",
        "https://hooks。example.org/SECRET",
        "https://hooks%2eexample.org/SECRET",
    ],
)
def test_what_is_no_url_for_messages_is_refused_and_not_shown(url):
    with pytest.raises(InvalidInput, match=r"^webhook\.url: ") as refused:
        parse(url)
    assert "SECRET" not in str(refused.value)


def test_a_name_knows_its_url_and_betrays_nothing():
    one, other = parse("https://hooks.example.org/one"), parse("https://hooks.example.org/other")
    assert one.name == parse("https://hooks.example.org/one").name != other.name
    assert one.name.startswith("hooks.example.org/")
    assert "one" not in one.name


def test_a_url_that_is_set_twice_counts_once(configure):
    settings = configure(url=["https://a.example.org", "https://b.example.org", "https://a.example.org"])
    assert [target.host for target in targets(settings)] == ["a.example.org", "b.example.org"]


def test_none_that_is_set_is_none(configure):
    assert targets(configure()) == targets(configure(url=[])) == []


def test_plain_http_is_for_private_receivers(configure):
    assert targets(configure(url=["http://localhost/"]))
    with pytest.raises(InvalidInput, match=r"https://, unless webhook\.allow-private is true"):
        targets(configure(url=["http://localhost/"], allow_private=False))
