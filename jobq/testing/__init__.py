"""What tests of jobq and of its plugins are built from: a clock that only moves when told, a store in memory, an
executor that runs a script, and makers of jobs.

`jobq.testing.contracts` has the suites that every store, executor and backoff must pass; it alone needs pytest.
"""

from jobq.testing.builders import make_context, make_info, make_job, make_settings, new
from jobq.testing.clock import START, FakeClock, FixedRandom
from jobq.testing.executors import ScriptedExecutor, ScriptedRunning
from jobq.testing.memory import MemoryPresence, MemoryStorage, MemoryStore

__all__ = [
    "START",
    "FakeClock",
    "FixedRandom",
    "MemoryPresence",
    "MemoryStorage",
    "MemoryStore",
    "ScriptedExecutor",
    "ScriptedRunning",
    "make_context",
    "make_info",
    "make_job",
    "make_settings",
    "new",
]
