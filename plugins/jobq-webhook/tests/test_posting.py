"""One try against real servers: what is sent is what was signed, to the address that was checked, in its time."""

import contextlib
import json
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook

from jobq.errors import InvalidInput
from jobq_webhook import __version__
from jobq_webhook.errors import NotAllowed, NotDelivered
from jobq_webhook.messages import Message
from jobq_webhook.posting import BODY_LIMIT, retry_after
from jobq_webhook.sending import send
from jobq_webhook.signing import new_secret
from jobq_webhook.targets import parse

MESSAGE = Message("msg_1", "job.dead", "2026-01-01T00:00:00.000Z", {"id": "nightly", "tags": ["ü", "a,b"]})


def test_a_receiver_verifies_what_it_gets(receiver, configure, secret):
    answer = send(MESSAGE, parse(receiver.url), configure())
    assert (answer.status, answer.is_success, answer.text) == (204, True, "")
    ((path, headers, body),) = receiver.requests
    assert path == "/hook?key=k"
    told = Webhook(secret).verify(body, headers)
    assert told == {"type": "job.dead", "timestamp": "2026-01-01T00:00:00.000Z", "data": MESSAGE.data}
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == f"jobq-webhook/{__version__}"
    assert headers["Host"] == f"localhost:{receiver.port}"
    assert headers["Content-Length"] == str(len(body))
    assert headers["webhook-id"] == "msg_1"


def test_while_secrets_change_a_receiver_verifies_with_either(receiver, configure):
    old, new = new_secret(), new_secret()
    send(MESSAGE, parse(receiver.url), configure(secret=f"{new} {old}"))
    ((_, headers, body),) = receiver.requests
    assert Webhook(old).verify(body, headers) == Webhook(new).verify(body, headers) == json.loads(body)


def test_nothing_is_sent_unsigned(receiver, configure):
    with pytest.raises(InvalidInput, match="nothing is sent unsigned"):
        send(MESSAGE, parse(receiver.url), configure(secret=""))
    assert receiver.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver, make_receiver, configure, status):
    elsewhere = make_receiver()
    receiver.answers = [(status, {"Location": elsewhere.url, "Content-Length": "0"}, b"")]
    answer = send(MESSAGE, parse(receiver.url), configure())
    assert not answer.is_success
    assert "redirects are not followed" in str(answer)
    assert (len(receiver.requests), elsewhere.requests) == (1, [])


def test_a_private_receiver_gets_nothing_unless_allowed(receiver, configure):
    with pytest.raises(NotAllowed):
        send(MESSAGE, parse(receiver.url), configure(allow_private=False))
    assert receiver.requests == []


def test_a_name_is_looked_up_once_so_that_none_can_change_its_mind(receiver, configure, names):
    names["hooks.example.org"] = [["127.0.0.1"], ["127.0.0.2"]]
    target = parse(f"http://hooks.example.org:{receiver.port}/")
    assert send(MESSAGE, target, configure()).is_success
    assert names.asked == ["hooks.example.org"]
    assert receiver.requests[0][1]["Host"] == f"hooks.example.org:{receiver.port}"


def test_a_second_address_is_tried_where_the_first_takes_nothing(receiver, configure, names):
    names["hooks.example.org"] = [["127.0.0.2", "127.0.0.1"]]
    assert send(MESSAGE, parse(f"http://hooks.example.org:{receiver.port}/"), configure()).is_success


def test_no_proxy_of_the_environment_is_asked(receiver, configure, raw_server, monkeypatch):
    proxy = raw_server(lambda connection: None)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert send(MESSAGE, parse(receiver.url), configure()).is_success
    assert proxy.connections == 0


class TestTLS:
    def url(self, receiver, host="hooks.example.org"):
        return parse(f"https://{host}:{receiver.port}/hook")

    def test_the_certificate_is_that_of_the_name_though_the_address_is_called(
        self, tls_receiver, configure, names, ca_file, secret
    ):
        names["hooks.example.org"] = [["127.0.0.1"], ["127.0.0.2"]]
        assert send(MESSAGE, self.url(tls_receiver), configure(ca_file=str(ca_file))).is_success
        ((_, headers, body),) = tls_receiver.requests
        assert Webhook(secret).verify(body, headers)
        assert names.asked == ["hooks.example.org"]

    def test_a_file_of_authorities_is_relative_to_the_home(self, tls_receiver, configure, names, ca_file):
        names["hooks.example.org"] = [["127.0.0.1"]]
        assert send(MESSAGE, self.url(tls_receiver), configure(ca_file=ca_file.name)).is_success

    def test_another_name_is_not_believed(self, tls_receiver, configure, names, ca_file):
        names["other.example.org"] = [["127.0.0.1"]]
        with pytest.raises(NotDelivered, match=r"other\.example\.org has a certificate that is not accepted: .*other"):
            send(MESSAGE, self.url(tls_receiver, "other.example.org"), configure(ca_file=str(ca_file)))
        assert tls_receiver.requests == []

    def test_an_unknown_authority_is_not_believed(self, tls_receiver, configure, names):
        names["hooks.example.org"] = [["127.0.0.1"]]
        with pytest.raises(NotDelivered, match="certificate that is not accepted"):
            send(MESSAGE, self.url(tls_receiver), configure())
        assert tls_receiver.requests == []

    def test_a_file_that_is_not_there_is_told(self, tls_receiver, configure):
        with pytest.raises(InvalidInput, match=r"webhook\.ca-file: .*gone\.pem cannot be read"):
            send(MESSAGE, self.url(tls_receiver), configure(ca_file="gone.pem"))

    def test_one_that_does_not_speak_tls_is_not_delivered_to(self, receiver, configure):
        with pytest.raises(NotDelivered, match=r"cannot be reached: .*SSL"):
            send(MESSAGE, self.url(receiver, "localhost"), configure())

    def test_one_that_never_shakes_hands_is_given_up(self, raw_server, configure):
        server = raw_server(lambda connection: server.over.wait())
        with pytest.raises(NotDelivered, match=r"gave no answer within 0\.3s"):
            send(MESSAGE, parse(f"https://localhost:{server.port}/"), configure(timeout=0.3))


class TestTime:
    def refused(self, server, configure):
        with pytest.raises(NotDelivered, match=r"^localhost gave no answer within 0\.3s$"):
            send(MESSAGE, parse(server.url), configure(timeout=0.3))

    def test_one_that_never_answers_is_given_up(self, raw_server, configure):
        server = raw_server(lambda connection: server.over.wait())
        self.refused(server, configure)

    @pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nX: "])
    def test_one_that_sends_a_byte_now_and_then_is_given_up(self, raw_server, configure, start):
        def drip(connection):
            connection.sendall(start)
            while not server.over.wait(0.05):
                connection.sendall(b"x")

        server = raw_server(drip)
        self.refused(server, configure)

    def test_one_that_never_comes_to_the_point_is_given_up(self, raw_server, configure):
        def wait(connection):
            while not server.over.wait(0.01):
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

        server = raw_server(wait)
        self.refused(server, configure)

    def test_a_status_is_an_answer_though_its_text_never_ends(self, raw_server, configure):
        def drip(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n")
            while not server.over.wait(0.05):
                connection.sendall(b"x")

        server = raw_server(drip)
        assert send(MESSAGE, parse(server.url), configure(timeout=2)).status == 500

    def test_a_success_is_not_read_on(self, raw_server, configure):
        def hang(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            server.over.wait()

        server = raw_server(hang)
        assert send(MESSAGE, parse(server.url), configure(timeout=600)).is_success


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "cannot be reached: Remote end closed"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "cannot be reached: "),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200, "cannot be reached: "),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "cannot be reached: "),
        (b"\x1b]0;title\x07\r\n\r\n", "cannot be reached: "),
        (b"HTTP/1.1 500 No\r\nContent-Length: 5,7\r\n\r\nwrong", "cannot be reached: "),
    ],
)
def test_what_is_no_http_is_not_delivered_to(raw_server, configure, said, why):
    def act(connection):
        connection.recv(65536)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while connection.recv(65536):  # closed with something unread, it would be reset
                pass

    with pytest.raises(NotDelivered, match=f"^localhost {why}") as refused:
        send(MESSAGE, parse(raw_server(act).url), configure())
    assert str(refused.value).isprintable()


def test_a_closed_port_is_told(configure):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1 cannot be reached: Connection refused"):
        send(MESSAGE, parse(f"http://127.0.0.1:{port}/"), configure())


class TestText:
    def answered(self, receiver, configure, body, **headers):
        receiver.answers = [(500, headers, body)]
        return send(MESSAGE, parse(receiver.url), configure())

    def test_its_first_line_is_told(self, receiver, configure):
        answer = self.answered(receiver, configure, b"\r\n  no such hook \r\nsecond line")
        assert str(answer) == "500 Internal Server Error: no such hook"

    def test_what_steers_a_terminal_is_not(self, receiver, configure):
        answer = self.answered(
            receiver, configure, "\x1b]0;t\x07\x9b2J \u202ebad\u200b\ttext\xff\x00".encode() + b"\xff"
        )
        assert str(answer) == "500 Internal Server Error: ]0;t 2J bad textÿ �"
        assert str(answer).isprintable()

    def test_a_large_one_is_not_read_to_its_end(self, raw_server, configure):
        ended = []
        done = threading.Event()

        def flood(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 500 No\r\n\r\n")
            try:
                for _ in range(1000):
                    connection.sendall(b"x" * 65536)
                ended.append("all was read")
            except OSError:
                ended.append("the connection was closed")
            done.set()

        answer = send(MESSAGE, parse(raw_server(flood).url), configure())
        assert (answer.text[:200], len(answer.text)) == ("x" * 199 + "…", 200)
        assert done.wait(60)
        assert ended == ["the connection was closed"]

    def test_a_compressed_one_is_not_unpacked(self, receiver, configure):
        import gzip

        bomb = gzip.compress(b"x" * 10_000_000)
        assert len(bomb) > BODY_LIMIT
        answer = self.answered(receiver, configure, bomb, **{"Content-Encoding": "gzip"})
        assert "xxx" not in answer.text

    def test_a_status_counts_though_the_rest_cannot_be_read(self, raw_server, configure):
        def act(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")

        assert str(send(MESSAGE, parse(raw_server(act).url), configure())) == "500 Internal Server Error"

    def test_a_status_without_a_name_is_told(self, receiver, configure):
        receiver.answers = [(599, {}, b"")]
        assert str(send(MESSAGE, parse(receiver.url), configure())) == "599"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("9" * 50, 999_999_999),
        ("Thu, 01 Jan 2026 00:02:00 GMT", 120),
        ("Thu, 01 Jan 2026 00:02:00 -0000", 120),
        ("Wed, 31 Dec 2025 00:00:00 GMT", None),
        ("Thu, 01 Jan 2026 00:02:00 +9999999999999999", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_a_wait_that_is_asked_for(value, seconds):
    wait = retry_after(value, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert wait == (None if seconds is None else timedelta(seconds=seconds))
