"""Prints what the store of a home holds, where this process sees the home: state.py HOME (see `homes.state_of`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.faults.homes import state_of

if __name__ == "__main__":
    print(repr(state_of(Path(sys.argv[1]))))
