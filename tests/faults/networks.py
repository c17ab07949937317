"""A network of machines around a server, in namespaces of their own, and what can befall each one's link to it."""

import contextlib
import ctypes
import subprocess
from collections.abc import Iterator

from .machines import Machine

ADDRESS = "10.77.0.1"
"""The server's, by which every machine reaches it."""

NOBODY = "02:00:00:00:00:ff"
"""What is sent to this hardware address arrives and is taken by no one: it is lost without a word."""

CLONE_NEWNET = 0x40000000


class Network:
    """The server's end of all links, in a namespace that goes away when it is closed and nothing runs in it."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE  # it ends with whoever holds the other end
        self._keeper = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=pipe, stdout=pipe)
        try:
            assert self._keeper.stdout is not None
            assert self._keeper.stdout.readline()
            self._prefix = ["nsenter", f"--net={self._path}", "--"]
            self._links = 0
            self.run(f"ip link set lo up; ip address add {ADDRESS}/32 dev lo")
        except BaseException:
            self.close()
            raise

    @property
    def _path(self) -> str:
        return f"/proc/{self._keeper.pid}/ns/net"

    def run(self, script: str) -> None:
        """Run a script of the shell at the server."""
        _run(self._prefix, script)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread is at the server meanwhile, and what it starts stays there."""
        with open("/proc/thread-self/ns/net") as outside, open(self._path) as inside:
            _enter(inside.fileno())
            try:
                yield
            finally:
                _enter(outside.fileno())

    def join(self, machine: Machine) -> "Link":
        """Give a machine that has a network of its own a link to the server."""
        self._links += 1
        return Link(self, machine, self._links)

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.communicate()


class Link:
    """A cable between a machine and the server; it goes away with either.

    Attributes:
        address: the machine's, in the network.
    """

    def __init__(self, network: Network, machine: Machine, number: int) -> None:
        self._network, self._machine, self._port = network, machine, f"port{number}"
        high, low = divmod(number, 60)
        self._here, self.address = f"10.77.{high + 1}.{4 * low + 1}", f"10.77.{high + 1}.{4 * low + 2}"
        network.run(
            f"ip link add {self._port} type veth peer name eth0 netns {machine.pid};"
            f"ip address add {self._here}/30 dev {self._port}; ip link set {self._port} up"
        )
        self._on_machine(
            f"ip link set lo up; ip address add {self.address}/30 dev eth0; ip link set eth0 up;"
            f"ip route add {ADDRESS} via {self._here}"
        )

    def cut(self) -> None:
        """Pull the plug at the server's end: nothing goes through, in either direction, and nobody is told."""
        self._network.run(f"ip link set {self._port} down")

    def lose_requests(self) -> None:
        """What the machine sends is lost."""
        self._on_machine(f"ip neighbour replace {self._here} lladdr {NOBODY} dev eth0 nud permanent")

    def lose_answers(self) -> None:
        """What the server sends is lost."""
        self._network.run(f"ip neighbour replace {self.address} lladdr {NOBODY} dev {self._port} nud permanent")

    def reset(self) -> None:
        """Reset every connection that there is."""
        self._network.run(f"ss -K -t dst {self.address}")

    def mend(self) -> None:
        """Let everything through again."""
        self._network.run(
            f"ip link set {self._port} up; ip neighbour del {self.address} dev {self._port} 2>/dev/null || true"
        )
        self._on_machine(f"ip neighbour del {self._here} dev eth0 2>/dev/null || true")

    def _on_machine(self, script: str) -> None:
        _run(self._machine.prefix, script)


def _run(prefix: list[str], script: str) -> None:
    done = subprocess.run([*prefix, "sh", "-ec", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}: {done.stderr}"


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
