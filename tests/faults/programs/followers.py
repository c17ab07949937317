"""Programs that enqueue without a pause, wherever the queue is moved to: followers.py HISTORY COUNT

They are forked, and end when standard input does.
"""

import os
import select
import sys
import time
from pathlib import Path

import jobq
from jobq.errors import StoreMoved

sys.path.insert(0, os.path.dirname(__file__))
import specs


def note(log, line):
    """Write one line of the history."""
    os.write(log, f"\n{line} .\n".encode())


def follow(history, number):
    """Enqueue one job after the other, from this number on, each until it is acknowledged."""
    log = os.open(history / "clients", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    store = None
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            with jobq.Queue.open(store=store) as queue:
                while not select.select([sys.stdin], [], [], 0.02)[0]:
                    note(log, f"asked {number}")
                    job = queue.enqueue(**specs.spec(history, number))
                    note(log, f"acknowledged {number} {job.id}")
                    number += 1
        except StoreMoved as moved:
            if moved.state == "left":
                store = moved.url
            time.sleep(0.01)


def main():
    """Fork them, and see that each ends well."""
    history, count = Path(sys.argv[1]), int(sys.argv[2])
    for index in range(count):
        if os.fork() == 0:
            follow(history, 1_000_000 * (index + 1))
            os._exit(0)
    for _ in range(count):
        assert os.wait()[1] == 0


if __name__ == "__main__":
    main()
