"""The real command line, run in this process or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDS_WITHIN = 60.0
"""Seconds; a command in a process of its own that takes longer is killed, and the test fails."""


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it said.

    Attributes:
        code: the exit code.
        stdout_bytes, stderr_bytes: what it wrote; the output of jobs may be anything.
    """

    code: int
    stdout_bytes: bytes
    stderr_bytes: bytes

    @property
    def stdout(self) -> str:
        """What was printed, as text."""
        return self.stdout_bytes.decode(errors="backslashreplace")

    @property
    def stderr(self) -> str:
        """What was told on stderr, as text."""
        return self.stderr_bytes.decode(errors="backslashreplace")

    @property
    def json(self) -> Any:
        """What was printed, as JSON.

        Raises:
            ValueError: it is none.
        """
        return json.loads(self.stdout_bytes)


class CommandLine:
    """Runs `jobq`; called with a command's words it answers with how the command ended.

    Args:
        home: the home directory, also of processes that are started.
    """

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: str, stdin: str | bytes = b"", code: int | None = 0, process: bool = False) -> Answer:
        """Run a command to its end.

        Args:
            words: as they would be typed after `jobq`.
            stdin: what it can read.
            code: the exit code with which it must end; None: any.
            process: start a process of its own, which knows nothing of this one's patches and ad-hoc plugins.

        Raises:
            AssertionError: it ended with another code; the message has what it said.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin
        answer = self._start(words, data) if process else _run(words, data)
        if code is not None and answer.code != code:
            said = f"{answer.stdout}{answer.stderr}"
            raise AssertionError(f"jobq {' '.join(words)} ended with {answer.code} instead of {code}\n{said}")
        return answer

    def _start(self, words: tuple[str, ...], data: bytes) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "jobq", *words],
            input=data,
            capture_output=True,
            check=False,
            timeout=ENDS_WITHIN,
            env=os.environ | {"JOBQ_HOME": str(self.home)},
        )
        return Answer(done.returncode, done.stdout, done.stderr)


def _run(words: tuple[str, ...], data: bytes) -> Answer:
    from jobq.cli.entry import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _reading(data), _signals_kept():
        try:
            main(words)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    return Answer(code, _content(out), _content(err))


def _content(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    content: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return content


@contextlib.contextmanager
def _reading(data: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """A worker's command takes the signals for itself; afterwards they are the test's again."""
    taken = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    }
    try:
        yield
    finally:
        for number, handler in taken.items():
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
