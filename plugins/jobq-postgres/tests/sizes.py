"""How often chance is given a chance: a few times in every run, JOBQ_TEST_FAULTS=full for the figures."""

import os

FULL = os.environ.get("JOBQ_TEST_FAULTS") in ("full", "long")
TERMINATIONS = 500 if FULL else 20
CRASHES = 100 if FULL else 2
CUT_STEP = 1 if FULL else 37  # bytes between two cuts of an exchange
ADD_STEP = {1: 1 if FULL else 41, 60: 17 if FULL else 1501}  # likewise, by how many are added at once
ANSWER_STEP = 1 if FULL else 13
HELD = 600 if FULL else 4  # seconds for which a session holds its snapshot
AROUND = 60 if FULL else 2  # seconds before and after it
BUCKET = 10 if FULL else 1  # seconds over which a rate is taken
POOLS = [(1, 0), (1, 200), (2, 0), (2, 200), (5, 0), (5, 200)] if FULL else [(1, 0)]
"""Of a pooler: connections to the server, and prepared statements that it keeps for its clients."""
