"""Programs that hold the writers' lock of the store in a home for ever: holders.py HOME

With each line that is read one is forked. It has written a half of a record when it prints its pid; then it is printed
how it ended.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.faults import stores


def hold(home):
    """Take the lock, and be in the middle of a write."""
    kind = stores.of(home)
    with kind.held(kind.open(home, print)):
        print(os.getpid(), flush=True)
        time.sleep(1000)


def main():
    """Serve until the input ends."""
    home = Path(sys.argv[1])
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            hold(home)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
