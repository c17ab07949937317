"""A handler that writes down that it ran, as the command beside it does, and stays until a lock is free."""

import fcntl
import sys
import threading
from pathlib import Path

from recorded import begin, end


def run(job, context):
    """Payload: `history`, the directory; `gate`, the locked file; `burns`, whether a thread keeps the interpreter busy."""
    gate = Path(job.payload["gate"])
    begin(job)
    if job.payload.get("burns"):
        thread = threading.Thread(target=burn, args=(gate,))
        thread.start()
        thread.join()
    else:
        with gate.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    end(job)


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
