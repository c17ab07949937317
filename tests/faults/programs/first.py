"""The first process of a pid namespace. It reaps, and gives pids to harmless processes: first.py

It answers each line that it reads. `next PID`: the next process gets that pid if it is free. `take PID`: a harmless
process has it from now on (`taken`), or it is in use (`busy`). `end PID`: that process ends; how it had fared before,
which is `unharmed`, `gone`, `stopped`, or the numbers of the signals that it had received.
"""

import os
import select
import signal
import sys
from pathlib import Path

LAST = signal.SIGRTMAX
"""The highest number: what came before it has been told when it is told."""


def set_next(pid):
    """The next process gets this pid, or the first free one above."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))


def take(pid):
    """Start a process that notes whatever signal it gets, with this pid; its notes, or None where it got another."""
    notes, write = os.pipe()
    set_next(pid)
    child = os.fork()
    if child == 0:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, lambda number, frame: os.write(write, bytes([number])))
        os.write(write, b"\0")
        while True:
            signal.pause()
    os.close(write)
    os.read(notes, 1)
    if child == pid:
        return notes, fields(pid)[19]
    os.kill(child, signal.SIGKILL)
    os.close(notes)
    return None


def end(pid, notes, started):
    """End a process that `take` started; how it had fared."""
    now = fields(pid)
    if now is None or now[19] != started:
        return "gone"
    if now[0] in "Tt":
        return "stopped"
    os.kill(pid, LAST)
    received = b""
    while bytes([LAST]) not in received:
        if not select.select([notes], [], [], 30)[0] or not (told := os.read(notes, 100)):
            return "gone"
        received += told
    os.kill(pid, signal.SIGKILL)
    os.close(notes)
    return " ".join(map(str, received[:-1])) or "unharmed"


def fields(pid):
    """What /proc tells of a process, from its state on; None where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None


def main():
    """Serve until the input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whatever ends is reaped at once, and its pid is free
    taken = {}
    print("ready", flush=True)
    for line in sys.stdin:
        what, word = line.split()
        pid, answer = int(word), "done"
        if what == "next":
            set_next(pid)
        elif what == "end":
            answer = end(pid, *taken.pop(pid))
        elif (found := take(pid)) is None:
            answer = "busy"
        else:
            taken[pid], answer = found, "taken"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
