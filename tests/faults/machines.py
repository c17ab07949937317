"""Machines that share a disk: processes with a host name, pids and a boot of their own, in namespaces."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from jobq import presence
from jobq.job import Job
from jobq.members import WorkerInfo
from jobq.store import Query
from jobq_subprocess import cgroupfs
from tests.integration.conftest import Cli, eventually

from .homes import opened

FIRST = Path(__file__).parent / "programs" / "first.py"

BEGIN = """
hostname "$1"
mount --bind "$2" /proc/sys/kernel/random/boot_id
[ -z "$3" ] || umount "$3"
shift 3
exec "$@"
"""


class Machine:
    """One machine, from when it is switched on until its power is cut.

    Args:
        directory: for a file of its own.
        name: of the host.
        cgroups: whether workers can have cgroups.
        network: whether it has a network of its own, with nothing in it.

    Attributes:
        pid: of its first process, out here.
    """

    def __init__(self, directory: Path, name: str, *, cgroups: bool = True, network: bool = False) -> None:
        self.name = name
        boot = directory / f"boot-{uuid.uuid4()}"
        boot.write_text(f"{boot.name.removeprefix('boot-')}\n")
        own = None if cgroups else cgroupfs.own()
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            points = [each.point for each in cgroupfs.mounts(file.read()) if own and own.startswith(each.point)]
        own_network = ["-n"] if network else []
        space = ["unshare", *own_network, "-m", "--propagation", "private", "-u", "-p", "-f", "--mount-proc"]
        script = ["sh", "-ec", BEGIN, "sh", name, str(boot), (points or [""])[0], sys.executable, str(FIRST)]
        pipe = subprocess.PIPE
        self._keeper = subprocess.Popen(
            [*space, "--kill-child", *script], stdin=pipe, stdout=pipe, text=True, bufsize=1
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == "ready\n"
        (self.pid,) = children(self._keeper.pid)
        self.prefix = ["nsenter", "-t", str(self.pid), *own_network, "-m", "-u", "-p", "--"]
        """The words before a command that is to run there; it becomes the only child of the process that these start."""

    def give_next(self, pid: int) -> None:
        """The next process that starts there gets this pid, or the first free one above."""
        assert self._ask(f"next {pid}") == "done"

    def take(self, pid: int) -> None:
        """Let a harmless process have this pid, as soon as it is free."""
        eventually(lambda: self._ask(f"take {pid}") == "taken")

    def fared(self, pid: int) -> str:
        """How a process fared that has taken a pid, until now; it ends."""
        return self._ask(f"end {pid}")

    def _ask(self, line: str) -> str:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.write(f"{line}\n")
        return self._keeper.stdout.readline().rstrip("\n")

    def cut_power(self) -> None:
        """End everything there at once."""
        self._keeper.kill()
        self._keeper.communicate()


class CliOn(Cli):
    """`jobq` on a machine, with the home and the environment of another command line."""

    def __init__(self, jobq: Cli, machine: Machine) -> None:
        super().__init__(jobq.directory)
        self.home, self.environ, self.machine = jobq.home, jobq.environ, machine

    def command(self, *args: str) -> list[str]:
        return [*self.machine.prefix, *super().command(*args)]


def stored(home: Path) -> list[Job]:
    """The jobs in a home."""
    with opened(home) as store:
        return list(store.find(Query()))


def living(home: Path) -> list[WorkerInfo]:
    """The workers that are alive, on whatever machine."""
    return [info for info, alive in presence.members(home / "workers") if alive]


def children(pid: int) -> list[int]:
    """The pids of a process's children, waiting until it has one."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in eventually(lambda: path.read_text().split())]


def pid_there(pid: int) -> int:
    """The pid that a process has on its machine."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("NSpid:")[2].partition("\n")[0].split()[-1])


def kill(entered: "subprocess.Popen[Any]") -> None:
    """Kill what was started on a machine behind its prefix."""
    (pid,) = children(entered.pid)
    os.kill(pid, signal.SIGKILL)
    assert entered.wait(30) == -signal.SIGKILL
