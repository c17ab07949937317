"""A warm child: takes requests and answers them, until its socket closes.

Executed as a file, `python -P child.py REQUESTS ANSWERS NOTES REGION`, so that nothing but the standard library and
what a job needs of jobq is imported; see jobq_subprocess.protocol for what it reads and writes.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from _thread import allocate_lock  # as threading.Lock, without the import of threading
from typing import IO

from jobq.started import StartedRuns
from jobq_subprocess.calling import Child

_FIONREAD = 0x541B  # of ioctl_tty(2)


def _leftovers() -> bool:
    """Whether this process has living children; those that have died are reaped.

    Python's own resource tracker, which comes with shared memory and the like and goes with this process, is none.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    tracking = sys.modules.get("multiprocessing.resource_tracker")
    tracker = getattr(getattr(tracking, "_resource_tracker", None), "_pid", None)
    return tracker is None or _children() != {tracker}


def _children() -> set[int]:
    """The pids of this process's children; none where the system does not list them."""
    found: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    except OSError:  # a thread that has ended just now, or no such list
        return set()
    return found


def _prepare() -> None:
    """Adopt what handlers start, and let nothing that they print wait in a buffer, be it Python's or C's."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)  # _IONBF
    except ValueError:  # a C library without that symbol
        return


def _pipe_is_empty() -> bool:
    """Whether all that was printed has been read; False also where that cannot be told."""
    if sys.platform != "linux":
        return False
    count = bytearray(4)
    try:
        fcntl.ioctl(1, _FIONREAD, count)
    except OSError:
        return False
    return not any(count)


def serve(requests: IO[bytes], answers: int, notes: StartedRuns) -> None:
    """Take requests and answer them, until there are no more."""
    decode = json.JSONDecoder().decode
    lock = allocate_lock()

    def say(line: bytes) -> None:
        view = memoryview(line)
        with lock:
            while view:
                view = view[os.write(answers, view) :]

    greeting = decode(requests.readline().decode())
    sys.path[:0] = greeting["path"]
    child = Child(
        greeting["handlers"],
        _leftovers,
        say=say,
        begin=notes.note,
        memory=greeting["memory"],
        asked=greeting["asked"],
        wrapped=greeting["wrapped"],
    )
    say(b'{"ready":true}\n')
    while line := requests.readline():
        began = time.perf_counter_ns()
        request = decode(line.decode())
        answer, waits = child.answer(request)
        # The pipe first, then the flag, which is set before anything is read from the pipe
        waits = waits or not _pipe_is_empty() or notes.flag
        mark = b"!" if waits else b""
        say(b"%s %d%s %s\n" % (request["key"].encode(), (time.perf_counter_ns() - began) // 1000, mark, answer))
        if waits:
            if not os.read(answers, 1):
                return
            notes.flag = False


def main() -> None:
    """Serve the sockets that the arguments name."""
    requests, answers, notes, region = map(int, sys.argv[1:5])
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    started = StartedRuns(notes, region)
    os.close(notes)
    _prepare()
    with open(requests, "rb", buffering=1 << 16) as file:
        serve(file, answers, started)


if __name__ == "__main__":
    main()
