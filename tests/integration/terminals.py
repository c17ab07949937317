"""Commands on a pseudo-terminal of their own, which is their controlling one: keys are signals there."""

import contextlib
import os
import pty
import re
import select
import subprocess
import termios
import threading
import time

CTRL_C, CTRL_D, CTRL_Q, CTRL_S, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x04", b"\x11", b"\x13", b"\x1a", b"\x1c"
TIMEOUT = 30.0


class Terminal:
    """A terminal, and the command that was started on it; `stdout` or `stderr` may go elsewhere.

    Attributes:
        process: the command, the leader of the terminal's session.
        settings: what the terminal was set to before.
        is_open: whether the terminal is still there.
    """

    def __init__(self, command, *, env, cwd, columns=100, rows=40, **streams):
        self._leader, self._follower = pty.openpty()
        termios.tcsetwinsize(self._follower, (rows, columns))
        self.settings = termios.tcgetattr(self._follower)
        streams = {"stdin": self._follower, "stdout": self._follower, "stderr": self._follower} | streams

        command = ["setsid", "--ctty", *command]  # makes stdin the controlling terminal, and becomes the command
        self.process = subprocess.Popen(command, env={"TERM": "xterm", **env}, cwd=cwd, **streams)
        self._written = bytearray()
        self.is_open = True
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while self.is_open:
            if select.select([self._leader], [], [], 0.02)[0]:
                with contextlib.suppress(OSError):
                    self._written += os.read(self._leader, 65536)

    @property
    def written(self):
        """Everything that came out so far."""
        return bytes(self._written)

    def until(self, wanted, *, after=0):
        """Wait until the text has come, at or behind the position `after`; the position behind it."""
        deadline = time.monotonic() + TIMEOUT
        while (found := re.search(wanted, self.written[after:])) is None:
            assert time.monotonic() < deadline, f"{wanted!r} did not come: {self.written[after:]!r}"
            time.sleep(0.01)
        return after + found.end()

    def type(self, keys):
        os.write(self._leader, keys)

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Wait for the command to end; its exit code, when everything that it wrote is in `written`."""
        code = self.process.wait(TIMEOUT)
        while self.is_open and select.select([self._leader], [], [], 0.05)[0]:
            time.sleep(0.01)
        return code

    def settings_now(self):
        return termios.tcgetattr(self._follower)

    def hang_up(self):
        """Close the terminal, as a window is closed."""
        self.is_open = False
        self._reader.join()
        os.close(self._leader)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if self.is_open:
            self.hang_up()
        os.close(self._follower)


def screen_of(written):
    """The lines that a terminal shows after that was written, as far as lines are written over with CR and erased."""
    lines, column = [""], 0
    for token in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]", written.decode()):
        if token == "\r":
            column = 0
        elif token == "\n":
            lines.append("")
            column = 0
        elif token == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column].ljust(column) + token + lines[-1][column + 1 :]
            column += 1
    return lines
