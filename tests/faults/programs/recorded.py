"""A handler that writes down that it ran, as the command beside it does."""

import os
import signal
import time
from pathlib import Path


def run(job, context):
    """Payload: `history`, the directory; `how`; `seconds` to sleep, or the `signal` to die of."""
    over = begin(job)
    if job.payload["how"] == "poison":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
    if job.payload["how"] == "long" and job.run == 1:
        time.sleep(1000)
    if job.payload["how"] == "die":
        os.kill(os.getpid(), job.payload["signal"])
    time.sleep(job.payload.get("seconds", 0))
    end(job)
    if job.payload["how"] == "fail" and not over:
        raise ValueError("as it was asked to")


def begin(job):
    """Note the start of a run, and every other one that it meets; the numbers of those that are over."""
    path = path_of(job)
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    over = {words[1] for words in lines if words[0] == "end"}
    for words in lines:
        if words[0] == "start" and words[1] not in (*over, str(job.run)) and start_time(words[2]) == words[3]:
            note(path, f"overlap {job.run} {words[2]} {words[3]}")
    note(path, f"start {job.run} {os.getpid()} {start_time(os.getpid())} {job.attempts + 1}")
    return over


def end(job):
    """Note the end of a run."""
    note(path_of(job), f"end {job.run} {os.getpid()} {start_time(os.getpid())}")


def path_of(job):
    """Where the runs of a job are noted."""
    return Path(job.payload["history"]) / "runs" / job.id


def start_time(pid):
    """When a living process was started, as /proc tells it; None for any other."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


def note(path, line):
    """Append a line in one write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
