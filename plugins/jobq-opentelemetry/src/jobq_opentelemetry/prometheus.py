"""Metrics for Prometheus to fetch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from jobq.errors import InvalidInput
from jobq_opentelemetry.providers import missing

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from prometheus_client import CollectorRegistry

LOOPBACK = "127.0.0.1"


def parse_address(field: str, text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `[IPV6]:PORT` or `PORT`, the last at the loopback address.

    Raises:
        InvalidInput: it is none of them.
    """
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16) or (colon and not host):
        raise InvalidInput(field, text, "must be HOST:PORT or PORT, as 127.0.0.1:9464")
    return host.strip("[]") or LOOPBACK, int(port)


def registry_and_reader(*, target: bool) -> tuple[CollectorRegistry, MetricReader]:
    """A registry with nothing but what its reader is told; the reader is for a meter provider.

    Args:
        target: whether it also has `target_info`, which tells what process this is.

    Raises:
        PluginError: the exporter is not installed.
    """
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise missing("prometheus", error) from error
    registry = CollectorRegistry()
    return registry, PrometheusMetricReader(not target, registry=registry, scope_info_enabled=False)


def exposition(registry: CollectorRegistry) -> bytes:
    """What Prometheus would be answered with, in its text format."""
    from prometheus_client import generate_latest

    return generate_latest(registry)


def serve(address: tuple[str, int], registry: CollectorRegistry) -> None:
    """Answer Prometheus in a thread of its own, for as long as the process lives.

    Raises:
        OSError: the address cannot be listened at.
    """
    threading.Thread(target=server(address, registry).serve_forever, name="jobq-prometheus", daemon=True).start()


def server(address: tuple[str, int], registry: CollectorRegistry) -> WSGIServer:
    """A server that answers one request after the other, in the thread that serves.

    Raises:
        OSError: the address cannot be listened at.
    """
    import socket

    from prometheus_client import make_wsgi_app

    class Server(WSGIServer):
        address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET

        def server_bind(self) -> None:
            """As the class above, without asking who the host is, which may take long."""
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()
            self.server_name, self.server_port = address[0], self.server_address[1]
            self.setup_environ()

    served = Server(address, _Quiet)
    served.set_app(make_wsgi_app(registry))
    return served


class _Quiet(WSGIRequestHandler):
    timeout = 10.0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is that of the class above
        """Say nothing of requests."""
