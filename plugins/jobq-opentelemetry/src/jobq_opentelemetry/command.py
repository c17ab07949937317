"""`jobq metrics`: how the queues stand, for Prometheus."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.errors import StoreUnavailable

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

LOOK_SECONDS = 0.5
"""How often it is looked whether Ctrl-C was pressed."""


@command("metrics", short_help="Show how the queues stand in the text format of Prometheus.")
@click.option(
    "--serve",
    "address",
    metavar="[HOST:]PORT",
    help="Go on answering Prometheus there, at 127.0.0.1 unless a host is named.",
)
def metrics_command(state: Globals, address: str | None) -> int:
    """Print the number of jobs by queue and state, and for how long the oldest due job of each queue has waited.

    It is read from the store. What happens to jobs, and how long that takes, workers tell: opentelemetry.export and
    opentelemetry.prometheus say where.
    """
    from opentelemetry.sdk.metrics import MeterProvider

    from jobq_opentelemetry import telling
    from jobq_opentelemetry.depth import Depth
    from jobq_opentelemetry.names import SCOPE
    from jobq_opentelemetry.prometheus import exposition, parse_address, registry_and_reader, server

    where = None if address is None else parse_address("--serve", address)
    registry, reader = registry_and_reader(target=False)
    telling.install(quiet=False)
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    depth = Depth(lambda: nullcontext(state.queue))
    depth.observe(provider.get_meter(SCOPE))
    depth.read()  # a store that cannot be used is an error here, and no answer without numbers
    if where is None:
        click.echo(exposition(registry), nl=False)
        return 0
    try:
        serving = server(where, registry)
    except OSError as error:
        raise StoreUnavailable(f"{where[0]}:{where[1]} cannot be listened at: {error.strerror}") from None
    with serving:
        state.note(f"serving http://{serving.server_name}:{serving.server_port}/metrics until Ctrl-C")
        return _serve(serving)


def _serve(serving: WSGIServer) -> int:
    """Answer until Ctrl-C, in this thread, to which the queue belongs; the exit code.

    An interrupt is noted, not raised: one that comes in the middle of an answer would be taken for a fault of it.
    """
    interrupted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: interrupted.append(number))
    try:
        serving.timeout = LOOK_SECONDS
        while not interrupted:
            serving.handle_request()
    finally:
        signal.signal(signal.SIGINT, before)
    return 130
