"""The standard streams: made fit at the start, and talk that never costs the work.

stdout carries the answer, stderr the talk. What cannot be told is not told; only an answer that cannot be written is
an error.
"""

from __future__ import annotations

import errno
import os
import sys

from jobq.codec import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import IO

_UNWRITABLE = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def prepare() -> None:
    """See to it that the three standard descriptors are open, and that no text is unwritable for its characters.

    With one of them closed, the next file to be opened would get its number, and whatever is printed. An answer that
    has nowhere to go is still one that cannot be written.
    """
    for descriptor, name, mode, flags in (
        (0, "stdin", "r", os.O_RDWR),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_RDWR),
    ):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest free number is this one's
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a test's own stream has none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


class NobodyReads(Exception):
    """The reader of stdout has closed the pipe."""


def say(answer: str) -> None:
    """Lines of the answer, on stdout."""
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def show_json(value: object) -> None:
    """Print a value as JSON, alone on stdout; ASCII, so that no terminal and no locale can spoil it."""
    import json

    say(json.dumps(value, indent=2))


def show_json_lines(values: Iterable[object]) -> None:
    """Print values as JSON, one a line, as they come."""
    for value in values:
        say(encode(value))


def read_input(path: str, limit: int | None = None) -> bytes:
    """The content of a file, or of standard input for `-`.

    Raises:
        Misuse: it cannot be read, or is larger than `limit` bytes.
    """
    from jobq.errors import Misuse

    try:
        if path == "-":
            data = sys.stdin.buffer.read() if limit is None else sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:
                data = file.read() if limit is None else file.read(limit + 1)
    except OSError as error:
        raise Misuse(f"{path}: {error.strerror}") from None
    if limit is not None and len(data) > limit:
        raise Misuse(f"{path} has more than {limit} bytes")
    return data


def safe(text: str, stream: IO[str]) -> str:
    """The text, with what steers a terminal written as escapes where the stream is one."""
    if not stream.isatty():
        return text
    from jobq.cli.text import visible

    return visible(text)


def talk(message: str) -> None:
    """One line on stderr, harmless on a terminal; nothing where nobody can be told any more."""
    try:
        sys.stderr.write(f"{safe(message, sys.stderr)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def is_unwritable(error: OSError) -> bool:
    """Whether this is what writing to a full, broken or closed output raises: by who wrote, and with no file named."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    writer = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    by_us = writer.startswith("jobq.cli.") or writer.partition(".")[0] == "click"
    return by_us and error.filename is None and error.errno in _UNWRITABLE


def abandon(descriptor: int) -> None:
    """Nobody can have what is still to be written there: let it go nowhere, at exit too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def finish() -> None:
    """Write what is still in buffers, so that what cannot be written does not change the exit code at the very end."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            abandon(descriptor)
