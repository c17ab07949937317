"""jobq: a durable background job queue for Python and the shell.

What a program or a plugin needs is here; everything is imported when it is first used, so that `import jobq` is
cheap.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobq.backoff import Backoff
    from jobq.errors import (
        Conflict,
        DuplicateJob,
        InvalidInput,
        JobNotFound,
        JobqError,
        NotFound,
        PluginError,
        StoreError,
        WrongState,
    )
    from jobq.events import Event, EventKind
    from jobq.executor import Attempt, Executor, Kind, Outcome, Recovered, Running
    from jobq.hooks import hookimpl
    from jobq.job import Job, State
    from jobq.providers import Context, Option, Provider
    from jobq.queue import Queue
    from jobq.settings import Settings
    from jobq.store import Store
    from jobq.wrapping import AttemptFailed, AttemptWrapper

__version__ = "0.1.0"

_HOMES = {
    "jobq.backoff": ("Backoff",),
    "jobq.errors": (
        "Conflict",
        "DuplicateJob",
        "InvalidInput",
        "JobNotFound",
        "JobqError",
        "NotFound",
        "PluginError",
        "StoreError",
        "WrongState",
    ),
    "jobq.events": ("Event", "EventKind"),
    "jobq.executor": ("Attempt", "Executor", "Kind", "Outcome", "Recovered", "Running"),
    "jobq.hooks": ("hookimpl",),
    "jobq.job": ("Job", "State"),
    "jobq.providers": ("Context", "Option", "Provider"),
    "jobq.queue": ("Queue",),
    "jobq.settings": ("Settings",),
    "jobq.store": ("Store",),
    "jobq.wrapping": ("AttemptFailed", "AttemptWrapper"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Attempt",
    "AttemptFailed",
    "AttemptWrapper",
    "Backoff",
    "Conflict",
    "Context",
    "DuplicateJob",
    "Event",
    "EventKind",
    "Executor",
    "InvalidInput",
    "Job",
    "JobNotFound",
    "JobqError",
    "Kind",
    "NotFound",
    "Option",
    "Outcome",
    "PluginError",
    "Provider",
    "Queue",
    "Recovered",
    "Running",
    "Settings",
    "State",
    "Store",
    "StoreError",
    "WrongState",
    "__version__",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'jobq' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
