"""How much of the campaign is run: short with every test run, full before a change is kept, long before a release."""

import os

NAMES = ("short", "full", "long")

SIZE = os.environ.get("JOBQ_TEST_FAULTS") or NAMES[0]

LIMITS = {"short": 240, "full": 1800, "long": 6 * 3600}
"""Seconds that one test may take at most."""

if SIZE not in NAMES:
    raise ValueError(f"JOBQ_TEST_FAULTS is {SIZE}; it can be {', '.join(NAMES)}")


def rounds(*, short: int, full: int, long: int) -> int:
    """The number that is meant for the size in force; whole numbers of rounds, kills, points or seconds."""
    return {"short": short, "full": full, "long": long}[SIZE]
