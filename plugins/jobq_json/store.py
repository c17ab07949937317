"""The store: what `jobq.store.Store` asks for, over the files of one directory.

This module holds what adding needs; the view of the store, compaction and watching are imported when first used.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from jobq.errors import DuplicateJob, InvalidInput, JobChanged, JobNotFound, StoreError, StoreUnavailable, StoreUnreadable
from jobq.job import State
from jobq.store import Claimed, Counts, Store
from jobq.times import floor_ms, format_time, parse_time
from jobq_json import adding
from jobq_json.directory import Directory
from jobq_json.journal import Journal
from jobq_json.manifest import WAY_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from jobq.job import Change, Job
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Claim, Ended, NewJob, Presence, Query, Wanted, WorkerInfo
    from jobq_json.kept import Kept
    from jobq_json.manifest import Manifest
    from jobq_json.view import Place, View
    from jobq_json.watch import Watch

T = TypeVar("T")

BLIND_LIMIT = 32 << 20
"""Bytes of journal beyond which a process that only adds compacts too; the first reader has to replay them."""


class JsonStore(Store):
    """Jobs in JSON files; many processes of one machine share them.

    Args:
        settings: of them `durability`, `keep-completed` and `keep-cancelled`.
        context: `url` names a directory, relative to the home; HOME/queue where it is empty.

    Raises:
        InvalidInput: `durability` is neither `full` nor `normal`.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"processes", "durable"})

    def __init__(self, settings: Settings, context: Context) -> None:
        self.url = f"json:{context.url}"
        self._settings, self._warn, self._clock = settings, context.warn, context.clock
        self._members = context.home / "workers"
        self._path = context.home / (context.url or "queue")
        self._directory = self._new_directory()
        if settings["durability"] not in ("full", "normal"):
            raise InvalidInput("durability", settings["durability"], "must be full or normal")
        self._full = settings["durability"] == "full"
        self._pid = os.getpid()
        self._journal: Journal | None = None
        self._view: View | None = None
        self._finder: adding.Finder | None = None
        self._watch: Watch | None = None
        self._distrusted = -1
        self._compact_above = 0

    def add(self, new: Sequence[NewJob], *, now: datetime) -> list[Job]:
        if not new:
            return []
        twice = adding.repeated(new)
        chosen = [item.job.id for item in new if not item.generated]
        taken = self._taken_in_base(chosen) if chosen else set()
        with self._locked() as (manifest, journal):
            if chosen:
                finder = self._finder_of(manifest, journal)
                if finder.generation != self._searched:
                    taken = finder.in_base(chosen)
                taken |= finder.in_journal(chosen)
                if taken:
                    taken = set(self._view_of(manifest).locate(taken))
            if taken or twice:
                raise DuplicateJob(job_id for job_id in dict.fromkeys(i.job.id for i in new) if job_id in taken or job_id in twice)
            seq = journal.tail()
            journal.append(adding.record_of(new, seq), next_seq=seq + len(new))
        self._settle(journal, ring=True, now=now)
        return [item.job for item in new]
