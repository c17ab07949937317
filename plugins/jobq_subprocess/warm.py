"""A warm child as the executor sees it: its process, its sockets, its output, the attempts it has."""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from jobq.executor import Running
from jobq.started import StartedRuns
from jobq_subprocess.command import start
from jobq_subprocess.protocol import MESSAGE_LIMIT, PROGRESS, READY, Answer, Lines, messages, new_key
from jobq_subprocess.supervision import Stop, widen

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from datetime import datetime

    from jobq.clock import Clock
    from jobq.executor import Attempt, Outcome
    from jobq_subprocess.cgroup import Group

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")

KEEPS_MESSAGES_APART = sys.platform == "linux"
"""Whether the system has sockets that do, so that what a child has not taken can be taken back."""

_READ = 1 << 16
_READS = 32  # more than a pipe holds: what was printed before an answer is read before it is heard


class HandlerRun(Running):
    """An attempt of a handler under way, or sent ahead.

    Args:
        attempt: what it is.
        ended: told of its end.
        asked: told of a request to stop it.
        started: told its slot when it begins; None for one that is not sent ahead.

    Attributes:
        child: which one has it; None until there is one.
        request: the request to end it.
        key: what the answer to it begins with.
        line: what the child is sent for it.
        sent: when it was sent ahead (monotonic seconds); None: it was not.
        began: when it began (monotonic seconds).
        started_at: when it began, of one that was sent ahead.
        ending: it was handed to a thread that ends what is left of it.
        over: its end is noted.
    """

    def __init__(
        self,
        attempt: Attempt,
        ended: Callable[[Outcome], None],
        clock: Clock,
        asked: Callable[[HandlerRun], None],
        started: Callable[[int], None] | None = None,
    ) -> None:
        self.attempt, self.ended, self.started = attempt, ended, started
        self.request = Stop(clock)
        self.child: WarmChild | None = None
        self.key = new_key()
        self.line = b""
        self.sent: float | None = None
        self.began = 0.0
        self.started_at: datetime | None = None
        self.ending = self.over = False
        self._asked = asked

    def stop(self, grace: timedelta) -> None:
        self.request.stop(grace)
        self._asked(self)


class WarmChild:
    """One child process.

    Args:
        environment: its environment.
        inherited: descriptors that it inherits beside its own.
        notes: the file in which it notes what it begins.
        region: its region of that file.
        started: starts its process in a group, as `jobq_subprocess.groups.Groups.start` does.

    Attributes:
        run: the attempt it has, or None.
        ahead: those it was sent to begin afterwards, in order.
        answered: the key of the attempt that it has ended last.
        slot: of the attempt it has, and of those that follow.
        ready: it has said that it is.
        listened: its descriptors are being listened to.
        mute: it has closed its output, and so should not be given another job.
        unclean: what its attempt has left behind could not be ended without it.
        jobs: how many attempts it has ended.
        unsent: the messages that were not sent yet.
        full: its socket did not take all that was to be sent.
        group: the cgroup that it is in, or None.
        memory_kills: how many processes had been killed for want of memory when it was last idle.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        environment: dict[bytes, bytes],
        inherited: tuple[int, ...],
        notes: int,
        region: int,
        started: Callable[
            [Callable[[], subprocess.Popen[bytes]]], tuple[subprocess.Popen[bytes], Group | None]
        ] = lambda start: (start(), None),
    ) -> None:
        self.run: HandlerRun | None = None
        self.ahead: deque[HandlerRun] = deque()
        self.answered = ""
        self.slot = 0
        self.ready = self.listened = self.mute = self.unclean = self.full = False
        self.jobs = self.memory_kills = 0
        self.unsent: deque[bytes] = deque()
        self.pidfd = -1
        self.region = region
        self._lines = Lines()
        self._read_size = _READ
        self._printed: list[bytes] = []
        self._notes = StartedRuns(notes, region)
        kind = socket.SOCK_SEQPACKET if KEEPS_MESSAGES_APART else socket.SOCK_STREAM
        self._requests, self._requests_end = socket.socketpair(socket.AF_UNIX, kind)
        self.answers, answers_end = socket.socketpair()
        try:
            self._requests.setblocking(False)
            self.answers.setblocking(False)
            ends = (self._requests_end.fileno(), answers_end.fileno(), notes)
            self.process, self.group = started(partial(self._start, environment, ends, inherited))
            self._open_pipe()
        except BaseException:
            self.close()
            raise
        finally:
            answers_end.close()

    def _start(
        self, environment: dict[bytes, bytes], ends: tuple[int, int, int], inherited: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-P", PROGRAM, *map(str, (*ends, self.region))]
        return start(
            [os.fsencode(argument) for argument in argv],
            environment=environment,
            directory=None,
            inherited=(*ends, *inherited),
        )

    def _open_pipe(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - `start` asks for a pipe
        self.pipe = self.process.stdout.fileno()
        os.set_blocking(self.pipe, False)
        if hasattr(os, "pidfd_open"):
            self.pidfd = os.pidfd_open(self.process.pid)

    @property
    def takes_ahead(self) -> bool:
        """Whether it is in the middle of an attempt that others may be lined up behind."""
        run = self.run
        return (
            run is not None
            and self.ready
            and self.listened
            and not (run.ending or self.mute or self.full)
            and len(run.line) <= MESSAGE_LIMIT
            and run.request.kill_at is None
        )

    @property
    def writable(self) -> int:
        """The descriptor that tells when `send_rest` can go on."""
        return self._requests.fileno()

    def put(self, line: bytes) -> None:
        """Have a line sent by the next `send_rest`."""
        if len(line) <= MESSAGE_LIMIT:
            self.unsent.append(line)
        else:
            self.unsent.extend(messages(line))

    def send(self, line: bytes) -> bool:
        """Hand over a line; False if `unsent` has some of it. A child that is gone takes everything."""
        self.put(line)
        return self.send_rest()

    def send_rest(self) -> bool:
        """Go on with what is `unsent`; False if something still is."""
        self.full = False
        while self.unsent:
            try:
                sent = self._requests.send(self.unsent[0])
            except BlockingIOError:
                self.full = True
                return False
            except OSError:
                self.unsent.clear()
                break
            message = self.unsent.popleft()
            if sent < len(message):  # a stream takes parts
                self.unsent.appendleft(message[sent:])
        return True

    def take_back(self) -> set[bytes]:
        """The requests that were sent and that it has not taken: it will not get them any more."""
        found = set(self.unsent)
        self.unsent.clear()
        self.full = False
        while True:
            try:
                taken = self._requests_end.recv(2 * MESSAGE_LIMIT, socket.MSG_DONTWAIT)
            except OSError:
                return found
            if not taken:  # it was told that there is no more work
                return found
            found.add(taken)

    def hear(self) -> tuple[list[bytes], bool]:
        """All lines that have arrived, and whether more can."""
        lines: list[bytes] = []
        while data := self._receive():
            lines += self._lines.feed(data)
            if len(data) < _READ:
                return lines, True
        return lines, data is None

    def _receive(self) -> bytes | None:
        """What has arrived: None for nothing yet, nothing for the end."""
        try:
            return self.answers.recv(_READ)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def last_answer(self) -> Answer | None:
        """What a child that is gone said to the attempt it has, if it still did."""
        last = None
        while data := self._receive():
            for line in self._lines.feed(data):
                if line != READY and not line.startswith(PROGRESS):
                    answer = Answer(line)
                    if self.run is not None and answer.key == self.run.key:
                        last = answer
        return last

    def go_on(self) -> None:
        """Let it begin what is next, after an answer with which it waits."""
        try:
            self.answers.send(b".")
        except OSError:  # gone, which is heard of elsewhere
            return

    def has_begun(self, run: HandlerRun) -> bool:
        """Whether it has called the handler of an attempt, by its own notes."""
        return self._notes.has(run.attempt.job)

    def drain(self) -> bool:
        """Read what it has printed, to be handed on by `attribute`; False at the pipe's end."""
        for _ in range(_READS):
            self._notes.flag = True
            try:
                data = os.read(self.pipe, self._read_size)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._printed.append(data)
            if len(data) < self._read_size:
                return True
            self._read_size = widen(self.pipe)
        return True

    def attribute(self) -> None:
        """Give what was read to the attempt it has."""
        if self._printed:
            for data in self._printed:
                if self.run is not None:
                    self.run.attempt.output.write(data)
            self._printed.clear()

    def dismiss(self) -> None:
        """Tell it that there is no more work: it ends once it has finished what it has."""
        for end in (self._requests, self.answers):
            try:
                end.shutdown(socket.SHUT_WR)
            except OSError:
                continue

    def close(self) -> None:
        """Free the descriptors that the process's end leaves open."""
        for end in (self._requests, self._requests_end, self.answers):
            end.close()
        self._notes.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
