"""A program that enqueues, without an end: client.py HISTORY PAUSE

It reads numbers from its standard input. With the first it enqueues a few jobs itself. For each of the others it forks
a client that enqueues jobs from that number on, pausing for that many seconds after each call, until it is killed. The
client prints its pid when it has opened the queue; then it is printed how it ended.
"""

import itertools
import os
import sys
import time
from pathlib import Path

import jobq

sys.path.insert(0, os.path.dirname(__file__))
import specs


def enqueue(history, number, pause, calls=None):
    """Enqueue one job, one more, and three at once, in turn; writing down what is asked and what is acknowledged."""
    log = os.open(history / "clients", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with jobq.Queue.open() as queue:
        if calls is None:
            print(os.getpid(), flush=True)
        for call in itertools.count() if calls is None else range(calls):
            numbers = range(number, number + (3 if call % 3 == 2 else 1))
            number = numbers.stop
            words = " ".join(map(str, numbers))
            os.write(log, f"\nasked {words} .\n".encode())
            if len(numbers) == 1:
                jobs = [queue.enqueue(**specs.spec(history, *numbers))]
            else:
                jobs = queue.enqueue_many([specs.spec(history, each) for each in numbers])
            ids = " ".join(job.id for job in jobs)
            os.write(log, f"\nacknowledged {words} {ids} .\n".encode())
            time.sleep(pause)


def main():
    """Serve until the input ends."""
    history, pause = Path(sys.argv[1]), float(sys.argv[2])
    enqueue(history, int(sys.stdin.readline()), pause, calls=3)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            enqueue(history, int(line), pause)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
