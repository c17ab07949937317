"""A queue on several machines: a PostgreSQL server at the middle of a network, and hosts with homes of their own."""

import contextlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.integration.conftest import Cli, eventually

from .capabilities import missing, need
from .machines import CliOn, Machine
from .networks import ADDRESS, Network
from .scene import PROGRAMS

LEASE = 4.0
"""Seconds; the shortest that leaves a busy machine some room is short enough for tests."""

WITHIN = 60.0

HBA = "host all all 127.0.0.1/32 scram-sha-256\nhost all all 10.77.0.0/16 scram-sha-256\n"


class Site:
    """A network with a server in it.

    Args:
        url: of the server, as it is reached where it is.
    """

    def __init__(self, network: Network, url: str) -> None:
        self._network, self._local, self._schemas = network, url, itertools.count()
        parts = urlsplit(url)
        self._url = parts._replace(netloc=parts.netloc.replace("127.0.0.1", ADDRESS)).geturl()

    @contextlib.contextmanager
    def hosts(self, directory: Path, *names: str) -> Iterator[list["Host"]]:
        """Hosts with these names that share a queue that is empty; all of them are switched off at the end."""
        url = f"{self._url}?schema=q{next(self._schemas)}"
        with contextlib.ExitStack() as stack:
            hosts = []
            for name in names:
                machine = Machine(directory, name, network=True)
                stack.callback(machine.cut_power)
                hosts.append(Host(directory / name, machine, self._network, url))
                stack.callback(hosts[-1].close)
            yield hosts

    def connections(self, host: "Host") -> int:
        """How many connections the server believes to have with a host, but for those that only listen: for half a
        minute those may."""
        import psycopg

        with self._network.entered(), psycopg.connect(self._local) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE client_addr = %s AND application_name <> 'jobq watch'",
                [host.link.address],
            ).fetchone()
        assert row is not None
        return int(row[0])


class Host(CliOn):
    """`jobq` on a machine with a home and a network of its own; its workers tell in DIRECTORY/worker.log."""

    def __init__(self, directory: Path, machine: Machine, network: Network, url: str) -> None:
        super().__init__(Cli(directory), machine)
        self.name, self.link = machine.name, network.join(machine)
        self.log = directory / "worker.log"
        self.home.mkdir(mode=0o700)
        (self.home / "config.toml").touch(mode=0o600)
        (self.home / "config.toml").write_text(
            f'store = "{url}"\npoll-interval = "0.2s"\n[postgresql]\nlease = "{LEASE:g}s"\n'
        )

    def work(self, *args: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start a worker."""
        with self.log.open("ab") as log:
            return self.start("worker", "start", *args, stdout=log, stderr=log, **options)

    def told(self) -> str:
        """What its workers have said."""
        return self.log.read_text()


class Beats:
    """A job that writes down that it lives (see programs/beats.py), and what its runs have written."""

    def __init__(self, host: Host, path: Path, *args: str) -> None:
        self._path = path
        path.touch()
        self.id = host.add(*args, "--", sys.executable, str(PROGRAMS / "beats.py"), str(path))

    def go(self, run: int) -> None:
        """Let a run end."""
        Path(f"{self._path}.go-{run}").touch()

    def begun(self, run: int) -> bool:
        """Whether a run has."""
        return run in self.starts()

    def starts(self) -> list[int]:
        """Which runs have begun, in order."""
        return [each for what, each, _ in self._lines() if what == "start"]

    def ended(self, run: int) -> bool:
        """Whether a run came to its end by itself."""
        return any((what, each) == ("end", run) for what, each, _ in self._lines())

    def first(self, run: int) -> float:
        """When a run began to live, on the monotonic clock."""
        return min(when for _, each, when in self._lines() if each == run)

    def last(self, run: int) -> float:
        """When a run was last seen to live."""
        return max(when for _, each, when in self._lines() if each == run)

    def _lines(self) -> list[tuple[str, int, float]]:
        return [
            (what, int(run), float(when)) for what, run, when in map(str.split, self._path.read_text().splitlines())
        ]


def settled(host: Host, *jobs: Beats) -> list[dict[str, Any]]:
    """The records of jobs once they have come to their end."""
    host("wait", *(job.id for job in jobs), code=None, timeout=WITHIN)
    return [host.job(job.id) for job in jobs]


def outcomes(job: dict[str, Any]) -> list[tuple[str, str]]:
    """How each run of a job ended, and on which host."""
    return [(run["outcome"], run["host"]) for run in job["history"]]


@contextlib.contextmanager
def made_site() -> Iterator[Site]:
    """A network with a server; where the machine cannot have it, the test is skipped."""
    testing = pytest.importorskip("jobq_postgres.testing", reason="needs the distribution jobq-postgres")
    if why := missing("networks") or missing("pid namespaces"):
        pytest.skip(f"needs networks: {why}")
    need("postgresql")
    network = Network()
    try:
        with tempfile.TemporaryDirectory(prefix="jobq-site-", ignore_cleanup_errors=True) as name:
            shared = Path(name)
            (shared / "server").mkdir()
            (shared / "hba").write_text(HBA)
            settings = {"listen_addresses": f"127.0.0.1,{ADDRESS}", "hba_file": str(shared / "hba")}
            with contextlib.ExitStack() as stack:
                with network.entered():
                    server = stack.enter_context(testing.Server(shared / "server", settings))
                yield Site(network, server.url)
    finally:
        network.close()


__all__ = ["LEASE", "WITHIN", "Beats", "Host", "Site", "eventually", "made_site", "outcomes", "settled"]
