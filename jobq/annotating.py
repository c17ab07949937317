"""What plugins add to the `meta` of a new job (`jobq_meta`): each isolated from the next, none with a veto."""

from __future__ import annotations

from dataclasses import replace

from jobq.errors import described
from jobq.records import record
from jobq.spec import checked_meta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from jobq.job import Job
    from jobq.settings import Settings


@record(frozen=True, slots=True)
class Annotator:
    """One plugin's `jobq_meta`.

    Attributes:
        name: to report it by.
        prefix: what its keys begin with in `meta`, before a dot.
        call: the hook.
    """

    name: str
    prefix: str
    call: Callable[[Job, Settings], Mapping[str, Any] | None]


class Annotations:
    """Asks annotators about new jobs. One that fails adds nothing to that job, and is told of once.

    Args:
        annotators: whom to ask, in order.
        settings: handed to each.
        warn: hears of one that failed.
    """

    def __init__(self, annotators: Sequence[Annotator], settings: Settings, warn: Callable[[str], None]) -> None:
        self._annotators, self._settings, self._warn = annotators, settings, warn
        self._told: set[str] = set()

    def added_to(self, job: Job) -> Job:
        """The job with what they add; what its `meta` has already stays."""
        meta = job.meta
        for annotator in self._annotators:
            try:
                added = annotator.call(job, self._settings) or {}
                meta = checked_meta({f"{annotator.prefix}.{key}": value for key, value in added.items()} | {**meta})
            except (Exception, SystemExit) as error:
                self._tell(annotator.name, error)
        return job if meta is job.meta else replace(job, meta=meta)

    def _tell(self, name: str, error: BaseException) -> None:
        if name not in self._told:
            self._told.add(name)
            self._warn(f"{name} failed: {described(error)}; a job goes without what it would have added")
