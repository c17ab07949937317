"""The process that hands jobs in, by the peer's `app`; copied beside it. Prints JSON.

python client.py enqueue N      the seconds that N took, one by one
python client.py pickup N       of each of N, the seconds from the call to the first line of its handler
python client.py hold           begin a job that does not end
python client.py stamp          one job that tells where it ran
python client.py waiting        how many jobs the peer holds that have not ended
"""

import json
import os
import random
import sys
import time

import app
import jobs

WARM = 5


def enqueue(count: int) -> float:
    app.enqueue("nothing")  # opens the connection
    start = time.perf_counter()
    for _ in range(count):
        app.enqueue("nothing")
    return time.perf_counter() - start


def pickup(count: int) -> list[float]:
    pause = random.Random(1)
    before = os.stat(jobs.PATH).st_size // jobs.RUN.size
    for number in range(before, before + WARM + count):
        app.enqueue("stamp", sent=time.monotonic())
        end = time.monotonic() + 30
        while os.stat(jobs.PATH).st_size < (number + 1) * jobs.RUN.size:
            if time.monotonic() > end:
                raise TimeoutError(f"job {number} was not picked up within 30 s")
            time.sleep(0.001)
        # a pause of chance, so that no peer's polling falls into step with it
        time.sleep(pause.uniform(0.05, 0.15))
    return [began - sent for sent, began, *_ in jobs.runs()[before + WARM :]]


def hold() -> None:
    app.enqueue("hold", sent=jobs.HOLD)


def stamp() -> None:
    app.enqueue("stamp", sent=jobs.ASKED)


def waiting() -> int:
    return app.waiting()


if __name__ == "__main__":
    act = {"enqueue": enqueue, "pickup": pickup, "hold": hold, "stamp": stamp, "waiting": waiting}[sys.argv[1]]
    print(json.dumps(act(*map(int, sys.argv[2:]))))
