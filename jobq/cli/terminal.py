"""What is drawn over on a terminal: one line below the talk, or all of the screen; put back as it was at the end."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
from typing import IO, TYPE_CHECKING, Self

from jobq.cli.text import cut
from jobq.clock import Wake

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


def can_draw(stream: IO[str]) -> bool:
    """Whether the stream goes to a terminal on which a cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within, TERM and HUP end the process as an exception does, so that what was drawn is put back."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusLine:
    """One line on stderr that is drawn over and erased at the end, also by TERM and HUP.

    Nothing is written where stderr is no terminal. Signals are taken over, so it is opened in the main thread.

    Attributes:
        visible: whether anything is shown.
    """

    def __init__(self, *, hidden: bool = False) -> None:
        self.visible = not hidden and can_draw(sys.stderr)
        self._drawn = ""
        self._signals = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self.visible:
            self._signals.enter_context(ended_by_signals())
        return self

    def __exit__(self, *error: object) -> None:
        self.erase()
        self._signals.close()

    def draw(self, text: str) -> None:
        """Show `text`, harmless and one line, cut to the terminal; "" for nothing."""
        if not self.visible:
            return
        text = cut(text, _columns(sys.stderr.fileno()) - 1)
        if text != self._drawn:
            self._drawn = text  # before it is there: a signal that comes while it is written has it erased
            self._write(f"\r{text}\x1b[K")

    def erase(self) -> None:
        """Take it away, before anything else is written."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = ""

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal is gone: what it should tell is not what the command is for
            self.visible = False


class Screen:
    """All of the terminal that stdout is, while it is open: an alternate screen, and keys as they are typed.

    The screen, the cursor and the terminal's settings are put back at the end, and while the command is suspended.
    Signals are taken over, so it is opened in the main thread.
    """

    def __init__(self) -> None:
        self._out = sys.stdout.fileno()
        self._in = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._settings: list[object] | None = None
        self._wake = Wake()
        self._signals = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._signals.enter_context(ended_by_signals())
        self._handle(signal.SIGWINCH, lambda number, frame: self._wake.ring())
        self._handle(signal.SIGTSTP, lambda number, frame: self._suspend())
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._give_back()
        finally:
            self._signals.close()
            self._wake.close()

    def draw(self, lines: Sequence[str]) -> None:
        """Write `lines` over what is there, cut to the screen; harmless text, coloured or not."""
        columns, rows = _columns(self._out), shutil.get_terminal_size().lines
        if len(lines) > rows:
            lines = [*lines[: rows - 1], f"… {len(lines) - rows + 1} more lines"]
        shown = (line if "\x1b" in line else cut(line, columns) for line in lines)
        self._write(b"\x1b[H" + "\x1b[K\r\n".join(shown).encode(errors="backslashreplace") + b"\x1b[K\x1b[J")

    def wait(self, seconds: float) -> str:
        """Wait for keys, a new size of the terminal, or the end of the time: the keys typed; "q" when it is gone."""
        watched = [self._wake.fileno(), *([] if self._in is None else [self._in])]
        ready, _, _ = select.select(watched, [], [], seconds)
        self._wake.clear()
        if self._in not in ready:
            return ""
        try:
            return os.read(self._in, 64).decode(errors="replace") or "q"
        except OSError:
            return "q"

    def _handle(self, number: signal.Signals, handler: object) -> None:
        before = signal.signal(number, handler)  # type: ignore[arg-type]
        self._signals.callback(signal.signal, number, before)

    def _take(self) -> None:
        if self._in is not None:
            import tty

            self._settings = termios.tcgetattr(self._in)
            tty.setcbreak(self._in, termios.TCSANOW)
        self._write(_ENTER)

    def _give_back(self) -> None:
        """Also where the terminal is gone, or was never taken."""
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        if self._in is not None and self._settings is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSANOW, self._settings)  # type: ignore[arg-type]

    def _suspend(self) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()
        self._wake.ring()

    def _write(self, data: bytes) -> None:
        # Not through sys.stdout: a handler of signals that interrupts a write to it must not write to it.
        while data:
            data = data[os.write(self._out, data) :]


def _columns(descriptor: int) -> int:
    """How wide the terminal is; COLUMNS goes before what it says, as everywhere."""
    if os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    with contextlib.suppress(OSError):
        return os.get_terminal_size(descriptor).columns or 80
    return 80
