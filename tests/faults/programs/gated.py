"""A handler that writes down that it ran, as the command beside it does, and stays until a lock is free."""

import fcntl
import os
import sys
import threading
from pathlib import Path

from recorded import note, start_time


def run(job, context):
    """Payload: `history`, the directory; `gate`, the locked file; `burns`, whether a thread keeps the interpreter busy."""
    path, gate = Path(job.payload["history"]) / "runs" / job.id, Path(job.payload["gate"])
    me = f"{os.getpid()} {start_time(os.getpid())}"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    over = {words[1] for words in lines if words[0] == "end"}
    for words in lines:
        if words[0] == "start" and words[1] not in (*over, str(job.run)) and start_time(words[2]) == words[3]:
            note(path, f"overlap {job.run} {words[2]} {words[3]}")
    note(path, f"start {job.run} {me} {job.attempts + 1}")
    if job.payload.get("burns"):
        thread = threading.Thread(target=burn, args=(gate,))
        thread.start()
        thread.join()
    else:
        with gate.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    note(path, f"end {job.run} {me}")


def burn(gate):
    """Compute until the lock is free; no other thread of this process has the interpreter meanwhile."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    with gate.open() as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                sum(range(5_000_000))
            else:
                break
    sys.setswitchinterval(before)
