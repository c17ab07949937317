"""Receivers: real servers on the loopback that keep what they are sent and answer as they are told."""

import http.server
import socket
import ssl
import threading

import pytest
import trustme

from jobq.testing import make_settings
from jobq_webhook.options import OPTIONS
from jobq_webhook.signing import new_secret


class Receiver:
    """An HTTP server; `answers` holds what it says, the last one for ever: (status, headers, body)."""

    def __init__(self, context=None):
        self.requests, self.answers = [], [(204, {}, b"")]
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                answers = receiver.answers
                status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:
                    return  # it has read enough

            do_GET = do_POST

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, address):
                pass  # a client that leaves during the handshake

        self._server = Server(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self.url = f"{'http' if context is None else 'https'}://localhost:{self.port}/hook?key=k"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class RawServer:
    """A server of one act: `act(connection)` is called for each connection, which is closed afterwards."""

    def __init__(self, act):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://localhost:{self.port}/"
        self.connections = 0
        self.over = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=[act])
        self._thread.start()

    def _serve(self, act):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            if self.over.is_set():
                connection.close()
                return
            self.connections += 1
            with connection:
                try:
                    act(connection)
                except OSError:
                    pass

    def close(self):
        self.over.set()
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._socket.close()
        self._thread.join()


@pytest.fixture
def make_receiver():
    made = []

    def make(context=None):
        made.append(Receiver(context))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def receiver(make_receiver):
    return make_receiver()


@pytest.fixture
def raw_server():
    made = []

    def make(act):
        made.append(RawServer(act))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture
def tls_receiver(make_receiver, authority):
    """One whose certificate is for the name `hooks.example.org`, from an authority that no system knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hooks.example.org").configure_cert(context)
    return make_receiver(context)


@pytest.fixture
def ca_file(authority, tmp_path):
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def secret():
    return new_secret()


@pytest.fixture
def configure(tmp_path, secret):
    """`configure(url=…)`: settings of the plugin alone, with a secret, and private addresses allowed."""

    def configure(**values):
        values = {"secret": secret, "allow-private": True} | {k.replace("_", "-"): v for k, v in values.items()}
        return make_settings(*OPTIONS, values={"webhook": values}, home=tmp_path)

    return configure


class Names(dict):
    """A resolver: a host's name and a list of answers, one for each time it is asked, the last one for ever."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def look_up(self, host, port):
        self.asked.append(host)
        answers = self[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [(f, socket.SOCK_STREAM, 6, "", (a, port)) for f, a in zip(families, addresses, strict=True)]


@pytest.fixture
def names(monkeypatch):
    """`names["hooks.example.org"] = [["127.0.0.1"]]`; what is not in it is asked of the system."""
    names, real = Names(), socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        return names.look_up(host, port) if host in names else real(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names
