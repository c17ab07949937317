"""The real PgBouncer in front of a server, where it is installed."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from jobq_postgres.testing import _free_port

WITHIN = 20.0
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")

INI = """
[databases]
{database} = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {directory}/users.txt
admin_users = {user}
pool_mode = transaction
max_client_conn = 200
server_login_retry = 1
"""


def version(program):
    """The version of a PgBouncer, as numbers."""
    told = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", told).groups()))


class PgBouncer:
    """A PgBouncer on loopback, as `nobody` where this is root; a context manager.

    Args:
        url: of the server.
        settings: of its section `[pgbouncer]`.
    """

    def __init__(self, url, *, program=PROGRAM, **settings):
        parts = urlsplit(url)
        self._program, self._port = program, _free_port()
        self.url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{self._port}").geturl()
        self._made = tempfile.TemporaryDirectory(prefix="jobq-pgbouncer-", ignore_cleanup_errors=True)
        self._directory = directory = Path(self._made.name)
        self._process, self._user = None, {}
        ini = INI.format(
            database=parts.path[1:],
            server_port=parts.port,
            port=self._port,
            directory=directory,
            user=parts.username,
        )
        (directory / "pgbouncer.ini").write_text(ini + "".join(f"{k} = {v}\n" for k, v in settings.items()))
        (directory / "users.txt").touch(mode=0o600)
        (directory / "users.txt").write_text(f'"{parts.username}" "{parts.password}"\n')
        if os.geteuid() == 0:
            entry = pwd.getpwnam("nobody")
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            for path in (directory, *directory.iterdir()):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self._made.cleanup()

    def start(self):
        with open(self._directory / "pgbouncer.log", "ab") as log:
            self._process = subprocess.Popen(
                [self._program, self._directory / "pgbouncer.ini"], cwd="/", stdout=log, stderr=log, **self._user
            )
        end = time.monotonic() + WITHIN
        while True:
            with suppress(psycopg.OperationalError):
                self.say("SHOW VERSION")
                return
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(self.told())
            time.sleep(0.02)

    def stop(self):
        """Kill it, with all its connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def say(self, command):
        """Say something at its console."""
        console = urlsplit(self.url)._replace(path="/pgbouncer").geturl()
        with psycopg.connect(console, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
            cursor = connection.execute(command)
            return cursor.fetchall() if cursor.description else []

    def told(self):
        """What it has written to its log."""
        return (self._directory / "pgbouncer.log").read_text()
