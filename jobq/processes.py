"""Processes of this machine as /proc shows them: who carries a marker, who descends from whom, and safe signals.

A process is identified by pid and start time, and signalled through a pidfd that was opened before the identity was
checked again: a pid that was given to somebody else meanwhile is never hit. Where there is no /proc, `visible()` is
False and nothing is found.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


EXEC_LOOKS, EXEC_PAUSE = 5, 0.001
"""How often a process without an environment is looked at, and the seconds between: it may be starting a program."""

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of linux/sched.h
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


@record(frozen=True, slots=True)
class Process:
    """One process. `start_time` is in clock ticks since boot; `dead` means a zombie or less.

    One whose first thread has ended while others go on is shown as a zombie and is none.
    """

    pid: int
    parent: int
    session: int
    start_time: int
    dead: bool

    @property
    def identity(self) -> tuple[int, int]:
        """What no other process of this boot has."""
        return self.pid, self.start_time


def visible() -> bool:
    """Whether the processes of this machine can be looked at here."""
    return os.path.exists("/proc/self/environ") and hasattr(os, "pidfd_open")


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename


def boot_id() -> str:
    """What distinguishes this boot of this machine from every other, or "" where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def process(pid: int) -> Process | None:
    """The process of this pid, or None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError as error:
        _unless_short(error)
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), dead)


def become_subreaper() -> bool:
    """Make this process the one that adopts its orphaned descendants; False where the system has no such thing.

    They are its children from then on: it can find them all, and has to reap them.
    """
    import ctypes

    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def is_subreaper() -> bool:
    """Whether this process adopts its orphaned descendants."""
    import ctypes

    if sys.platform != "linux":
        return False
    answer = ctypes.c_int(0)
    done = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0) == 0
    return done and bool(answer.value)


def all_processes() -> Iterator[Process]:
    """Every process that /proc shows, dead ones included."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := process(int(name))) is not None:
            yield found


def carries(pid: int, *markers: bytes) -> bool:
    """Whether the process was started with each `NAME=value` in its environment (False where unreadable)."""
    return bool(markers) and set(markers) <= set(_environment(pid).split(b"\0"))


def _environment(pid: int) -> bytes:
    """What the process was started with, as it stands in its memory.

    In the middle of an exec there is nothing to be read for a moment: then it is looked at again.
    """
    for _ in range(EXEC_LOOKS):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if (environment := file.read()) or not _may_be_starting(pid):
                    return environment
        except OSError as error:
            _unless_short(error)
            return b""
        time.sleep(EXEC_PAUSE)
    return b""


def _may_be_starting(pid: int) -> bool:
    """Whether it is a living process that has memory of its own: no thread of the kernel, no zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError as error:
        _unless_short(error)
        return False
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _KERNEL_THREAD


def writes_to(pid: int, pipe: int) -> bool:
    """Whether the process has the writing end of the pipe of this inode number (False where that cannot be seen)."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError as error:
        _unless_short(error)
        return False
    return any(_is_writing_end(pid, name, f"pipe:[{pipe}]") for name in names)


def carriers(marker: bytes) -> list[Process]:
    """The living processes that carry `marker`, without this one and its ancestors."""
    return _others(lambda pid: carries(pid, marker))


def holders(path: Path) -> list[Process]:
    """The living processes that have this very file open for reading and writing, without this one and its ancestors.

    Whoever only looks at a file opens it for reading.
    """
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return []
    return _others(lambda pid: _has_open(pid, (facts.st_dev, facts.st_ino)))


def ancestors(pid: int) -> set[int]:
    """`pid` and the pids of its ancestors."""
    line: set[int] = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        found = process(pid)
        pid = found.parent if found is not None else 0
    return line


def send(target: Process, number: signal.Signals) -> bool:
    """Send a signal to exactly this process; False where it is gone.

    Raises:
        PermissionError: it became another user's.
    """
    try:
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return False
    try:
        now = process(target.pid)
        if now is None or now.dead or now.start_time != target.start_time:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def kill_all(find: Callable[[], list[Process]], *, seconds: float) -> list[Process]:
    """KILL whatever `find` finds, again and again until it finds nothing; what is still found after `seconds`."""
    end = time.monotonic() + seconds
    while targets := find():
        if time.monotonic() > end:
            return targets
        for target in targets:
            try:
                send(target, signal.SIGKILL)
            except PermissionError:
                continue
        for target in targets:
            await_end(target, seconds=max(0.0, min(0.2, end - time.monotonic())))
    return []


def await_end(target: Process, *, seconds: float) -> bool:
    """Wait until the process has ended (a zombie has); False when `seconds` ran out first."""
    try:
        descriptor = os.pidfd_open(target.pid)
    except ProcessLookupError:
        return True
    try:
        now = process(target.pid)
        if now is None or now.dead or now.start_time != target.start_time:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(descriptor)


def _others(wanted: Callable[[int], bool]) -> list[Process]:
    spared = ancestors(os.getpid())
    return [found for found in all_processes() if not found.dead and found.pid not in spared and wanted(found.pid)]


def _has_open(pid: int, file: tuple[int, int]) -> bool:
    """Whether the process has the file of this device and inode open for reading and writing."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError as error:
        _unless_short(error)
        return False
    for name in names:
        try:
            facts = os.stat(f"/proc/{pid}/fd/{name}")
            if (facts.st_dev, facts.st_ino) == file and _mode(pid, name) == os.O_RDWR:
                return True
        except OSError as error:  # closed meanwhile
            _unless_short(error)
    return False


def _unless_short(error: OSError) -> None:
    """Raise `error` where it tells of this process and not of the one looked at: out of descriptors or memory."""
    if error.errno in _SHORTAGES:
        raise error


def _mode(pid: int, descriptor: str) -> int:
    """How a descriptor was opened: O_RDONLY, O_WRONLY or O_RDWR."""
    with open(f"/proc/{pid}/fdinfo/{descriptor}", "rb") as info:
        for line in info:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE
    return os.O_RDONLY


def _is_writing_end(pid: int, descriptor: str, link: str) -> bool:
    try:
        if os.readlink(f"/proc/{pid}/fd/{descriptor}") != link:
            return False
        with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as file:
            flags = next((line.split()[1] for line in file if line.startswith("flags:")), "0")
    except OSError as error:  # closed meanwhile
        _unless_short(error)
        return False
    return int(flags, 8) & os.O_ACCMODE == os.O_WRONLY
