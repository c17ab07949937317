"""Programs that enqueue all at the same time, without a pause: contenders.py HISTORY COUNT SECONDS

They are forked, open the queue, and begin together when a line is read. At the end one JSON list is printed for each:
the seconds that each of its calls has taken. Before those stands another such list, of a program that meanwhile writes
to a file of its own and syncs that: what the machine alone makes somebody wait.
"""

import json
import os
import sys
import time
from pathlib import Path

import jobq

sys.path.insert(0, os.path.dirname(__file__))
import specs


def contend(history, number, ready, go, seconds):
    """Enqueue one job after the other, at least one, from this number on; the seconds of each call."""
    log = os.open(history / "clients", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    taken = []
    with jobq.Queue.open() as queue:
        queue.counts()
        os.write(ready, b".")
        os.read(go, 1)
        end = time.monotonic() + seconds
        while not taken or time.monotonic() < end:
            os.write(log, f"\nasked {number} .\n".encode())
            begin = time.monotonic()
            job = queue.enqueue(**specs.spec(history, number))
            taken.append(time.monotonic() - begin)
            os.write(log, f"\nacknowledged {number} {job.id} .\n".encode())
            number += 1
    return taken


def alone(path, seconds):
    """Write a little and sync it, again and again; the seconds of each time."""
    taken = []
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        os.write(file, bytes(500))
        os.fdatasync(file)
        taken.append(time.monotonic() - begin)
        time.sleep(0.001)
    return taken


def main():
    """Fork them, let them begin together, and collect what they tell."""
    history, count, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    (is_ready, ready), (go, begin) = os.pipe(), os.pipe()
    tellers = []
    for index in range(count):
        teller, tell = os.pipe()
        if os.fork() == 0:
            os.close(begin)
            taken = contend(history, 1_000_000 * (index + 1), ready, go, seconds)
            with open(tell, "w") as file:
                json.dump(taken, file)
            os._exit(0)
        os.close(tell)
        tellers.append(teller)
    for _ in range(count):
        os.read(is_ready, 1)
    print("ready", flush=True)
    sys.stdin.readline()
    os.close(begin)
    print(json.dumps(alone(history / "alone", seconds)), flush=True)
    for teller in tellers:
        with open(teller) as file:
            print(file.read(), flush=True)
    for _ in range(count):
        assert os.wait()[1] == 0


if __name__ == "__main__":
    main()
