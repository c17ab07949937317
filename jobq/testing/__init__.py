"""What tests of jobq and of its plugins are built from: a clock that only moves when told, a store in memory, an
executor that runs a script, makers of jobs, and ways to run an application's handlers and jobs at once.

`jobq.testing.contracts` has the suites that plugins must pass, `jobq.testing.fixtures` fixtures; these two need pytest.
"""

from jobq.handlers import Failed, Snoozed
from jobq.testing.builders import aged, make_context, make_info, make_job, make_settings, new
from jobq.testing.clock import START, FakeClock, FixedRandom
from jobq.testing.executors import ScriptedExecutor, ScriptedRunning
from jobq.testing.handling import RecordingContext, run_now
from jobq.testing.inline import InlineQueue, assert_enqueued
from jobq.testing.memory import MemoryPresence, MemoryStorage, MemoryStore

__all__ = [
    "START",
    "Failed",
    "FakeClock",
    "FixedRandom",
    "InlineQueue",
    "MemoryPresence",
    "MemoryStorage",
    "MemoryStore",
    "RecordingContext",
    "ScriptedExecutor",
    "ScriptedRunning",
    "Snoozed",
    "aged",
    "assert_enqueued",
    "make_context",
    "make_info",
    "make_job",
    "make_settings",
    "new",
    "run_now",
]
