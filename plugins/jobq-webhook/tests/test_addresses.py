"""No message goes where none may go, by whatever form, name or trick of the resolver."""

import socket
from ipaddress import ip_address

import pytest

from jobq_webhook.addresses import Reach, reach, resolve
from jobq_webhook.errors import NotAllowed, NotDelivered
from jobq_webhook.targets import parse

_PUBLIC = """
    1.1.1.1 8.8.8.8 93.184.215.14 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.167.0.1 223.255.255.254
    2606:4700:4700::1111 2a00:1450:4001:80b::200e 64:ff9b::808:808 ::ffff:8.8.8.8
"""
_PRIVATE = """
    10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1
    ::1 fc00::1 fd12:3456::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b::192.168.1.1
"""
_NEVER = """
    0.0.0.0 0.1.2.3 169.254.1.1 169.254.169.254 192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 100.100.100.200
    :: ::7f00:1 ::ffff:169.254.169.254 ::ffff:0.0.0.0 64:ff9b::a9fe:a9fe 64:ff9b::e000:1 64:ff9b:1::7f00:1 100::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe::1 3fff::1
    fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 fd00:ec2::254 fd00:ec2::254%eth0 4000::1 5f00::1
"""
TABLE = [
    (address, far)
    for far, addresses in ((Reach.PUBLIC, _PUBLIC), (Reach.PRIVATE, _PRIVATE), (Reach.NEVER, _NEVER))
    for address in addresses.split()
]


@pytest.mark.parametrize(("address", "far"), TABLE)
def test_how_far_an_address_reaches(address, far):
    assert reach(ip_address(address)) is far


@pytest.mark.parametrize(("address", "far"), TABLE)
@pytest.mark.parametrize("allow_private", [False, True])
def test_a_name_leads_only_where_it_may(names, address, far, allow_private):
    names["hooks.example.org"] = [[address]]
    allowed = far is Reach.PUBLIC or (far is Reach.PRIVATE and allow_private)
    target = parse("https://hooks.example.org/")
    if allowed:
        assert len(resolve(target, allow_private=allow_private)) == 1
    else:
        with pytest.raises(NotAllowed, match=r"hooks\.example\.org is .*, where no message is sent"):
            resolve(target, allow_private=allow_private)


@pytest.mark.parametrize(
    "host",
    ["127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0", "127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]", "[::]"],
)
def test_no_form_of_a_number_hides_the_loopback(host):
    with pytest.raises(NotAllowed, match="where no message is sent"):
        resolve(parse(f"https://{host}/"), allow_private=False)


@pytest.mark.parametrize("others", [["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"], ["2606:4700::1", "::1"]])
def test_one_forbidden_address_forbids_them_all(names, others):
    names["hooks.example.org"] = [others]
    with pytest.raises(NotAllowed):
        resolve(parse("https://hooks.example.org/"), allow_private=False)


def test_without_tls_it_stays_at_home(names):
    names["hooks.example.org"] = [["8.8.8.8"], ["127.0.0.1"]]
    target = parse("http://hooks.example.org/")
    with pytest.raises(NotAllowed, match="without TLS"):
        resolve(target, allow_private=True)
    assert resolve(target, allow_private=True) == ["127.0.0.1"]


def test_a_name_that_nobody_knows_may_be_known_later(monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(NotDelivered, match="cannot be looked up: Name or service not known"):
        resolve(parse("https://hooks.example.org/"), allow_private=False)


def test_a_name_that_is_none_is_refused():
    with pytest.raises(NotAllowed, match="no name"):
        resolve(parse(f"https://{'a' * 70}.example.org/"), allow_private=False)
