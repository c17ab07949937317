"""A command that writes down that it lives, every hundredth of a second, until it may end: beats.py FILE

FILE            `start RUN SECONDS`, `beat RUN SECONDS` and `end RUN SECONDS`, on the clock that all machines share
FILE.go-RUN     once it is there, the run ends
"""

import os
import sys
import time

path, run = sys.argv[1], os.environ["JOBQ_RUN"]
file = open(path, "ab", buffering=0)  # noqa: SIM115 - it ends with the process


def tell(what):
    file.write(f"{what} {run} {time.monotonic()}\n".encode())


print(f"run {run} goes on until {path}.go-{run} is there", flush=True)
tell("start")
while not os.path.exists(f"{path}.go-{run}"):
    tell("beat")
    time.sleep(0.01)
tell("end")
