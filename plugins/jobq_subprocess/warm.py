"""A warm child as the executor sees it: its process, its socket, its output, the attempt it has."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from jobq.executor import Running
from jobq_subprocess.command import start
from jobq_subprocess.protocol import READY, Answer, Lines
from jobq_subprocess.supervision import Stop, widen

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from jobq.clock import Clock
    from jobq.executor import Attempt, Outcome

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")

_READ = 1 << 16
_READS = 32  # more than a pipe holds: what was printed before an answer is read before it is heard


class HandlerRun(Running):
    """An attempt of a handler under way.

    Attributes:
        child: which one has it; None until there is one.
        ending: it was handed to a thread that ends what is left of it.
    """

    def __init__(
        self, attempt: Attempt, ended: Callable[[Outcome], None], clock: Clock, asked: Callable[[HandlerRun], None]
    ) -> None:
        self.attempt, self.ended = attempt, ended
        self.request = Stop(clock)
        self.child: WarmChild | None = None
        self.ending = False
        self._asked = asked

    def stop(self, grace: timedelta) -> None:
        self.request.stop(grace)
        self._asked(self)


class WarmChild:
    """One child process.

    Args:
        environment: its environment.
        inherited: descriptors that it inherits beside its socket.

    Attributes:
        run: the attempt it has, or None.
        listened: its descriptors are being listened to.
        mute: it has closed its output, and so should not be given another job.
        unclean: what its attempt has left behind could not be ended without it.
        jobs: how many attempts it has ended.
        unsent: what its socket did not take yet.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, environment: dict[bytes, bytes], inherited: tuple[int, ...]) -> None:
        self.run: HandlerRun | None = None
        self.listened = self.mute = self.unclean = False
        self.jobs = 0
        self.unsent = b""
        self.pidfd = -1
        self._lines = Lines()
        self._read_size = _READ
        self.socket, other = socket.socketpair()
        try:
            self.socket.setblocking(False)
            self.process = self._start(other.fileno(), environment, inherited)
        except BaseException:
            self.socket.close()
            raise
        finally:
            other.close()

    def _start(
        self, descriptor: int, environment: dict[bytes, bytes], inherited: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-P", PROGRAM, str(descriptor)]
        process = start(
            [os.fsencode(argument) for argument in argv],
            environment=environment,
            directory=None,
            inherited=(descriptor, *inherited),
        )
        assert process.stdout is not None  # noqa: S101 - `start` asks for a pipe
        self.pipe = process.stdout.fileno()
        os.set_blocking(self.pipe, False)
        if hasattr(os, "pidfd_open"):
            self.pidfd = os.pidfd_open(process.pid)
        return process

    def send(self, data: bytes) -> bool:
        """Hand over `data`; False if `unsent` has some of it. A child that is gone takes everything."""
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return True
        self.unsent = data[sent:] if sent < len(data) else b""
        return not self.unsent

    def hear(self) -> tuple[list[bytes], bool]:
        """The lines that arrived, and whether more can."""
        data = self._receive()
        if data is None:
            return [], True
        return (self._lines.feed(data), True) if data else ([], False)

    def _receive(self) -> bytes | None:
        """What has arrived: None for nothing yet, nothing for the end."""
        try:
            return self.socket.recv(_READ)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def last_answer(self) -> Answer | None:
        """What a child that is gone said to its last attempt, if it still did."""
        answer = None
        while data := self._receive():
            for line in self._lines.feed(data):
                if line != READY:
                    answer = Answer(line)
        return answer

    def drain(self) -> bool:
        """Read what it has printed, for the attempt it has; False at the pipe's end."""
        for _ in range(_READS):
            try:
                data = os.read(self.pipe, self._read_size)
            except BlockingIOError:
                return True
            if not data:
                return False
            if self.run is not None:
                self.run.attempt.output.write(data)
            if len(data) < self._read_size:
                return True
            self._read_size = widen(self.pipe)
        return True

    def dismiss(self) -> None:
        """Tell it that there is no more work: it ends once it has finished what it has."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def close(self) -> None:
        """Free the descriptors that the process's end leaves open."""
        self.socket.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
