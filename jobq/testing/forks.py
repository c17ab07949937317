"""Processes that the store contract forks: each runs a function and says what it did, until it ends or is killed."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

SAID_WITHIN = 60.0
"""Seconds; far more than anything takes that is waited for, so that only what never comes fails."""


class Fork:
    """A child process; a context manager that kills it, if it still runs, and waits for its end.

    Args:
        act: what it does. It is given a function that says something, a JSON value, to this process; a handle of a
            store that it uses it must open itself.
    """

    def __init__(self, act: Callable[[Callable[[Any], None]], None]) -> None:
        self._read, write = os.pipe()
        with warnings.catch_warnings():
            # Where other threads run, which may hold locks: the child uses nothing of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            _be(act, self._read, write)
        os.close(write)
        self._rest = b""
        self._code: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._code is None:
            self.kill()
        os.close(self._read)

    def hear(self) -> Any:
        """The next thing it says, in its order; None once it has ended and all is heard.

        Raises:
            AssertionError: it says nothing for long, or its function raised.
        """
        end = time.monotonic() + SAID_WITHIN
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while b"\n" not in self._rest:
            assert poll.poll(max(0.0, end - time.monotonic()) * 1000), "the other process says nothing"
            data = os.read(self._read, 1 << 16)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        said = json.loads(line)
        assert not isinstance(said, dict), said["trouble"]
        return said

    def hear_all(self) -> list[Any]:
        """What it says from now to its end."""
        return list(iter(self.hear, None))

    def kill(self) -> None:
        """Kill it, as whoever pulls the plug of one process, and wait until it is gone."""
        os.kill(self._pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Its exit code, once it has ended; of a killed one minus the number of the signal."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code


def _be(act: Callable[[Callable[[Any], None]], None], read: int, write: int) -> None:
    """Be the child, and end without what this process would do at its end."""
    os.close(read)

    def say(what: Any) -> None:
        os.write(write, json.dumps(what).encode() + b"\n")

    code = 1
    try:
        act(say)
        code = 0
    except BaseException:
        say({"trouble": traceback.format_exc()})
    finally:
        os._exit(code)
