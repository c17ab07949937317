"""The file: one JSON document, read whole and replaced whole."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from jobq.errors import StoreLocked, StoreUnreadable, described
from jobq.files import read_private, replace, sync_directory, unavailable
from jobq.job import Job, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT = "jobq-example 1"
LOCK_WAIT = 30.0
"""Seconds that a writer waits for the lock; nothing holds it longer than it takes to write the document."""


@dataclass
class Document:
    """Everything there is: the jobs by id, in the order in which they were enqueued, and the reasons of paused queues."""

    jobs: dict[str, Job]
    paused: dict[str, str]

    def held_by(self, worker_id: str) -> list[Job]:
        """The jobs that this worker has."""
        return [job for job in self.jobs.values() if job.state is State.PROCESSING and job.worker == worker_id]

    def encoded(self) -> bytes:
        """The bytes of the file."""
        jobs = [job.record() for job in self.jobs.values()]
        return json.dumps({"format": FORMAT, "paused": self.paused, "jobs": jobs}).encode()

    @staticmethod
    def decoded(data: bytes) -> Document:
        """The document of these bytes.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: they are none.
        """
        content = json.loads(data)
        if content["format"] != FORMAT:
            raise ValueError(f"the format is {content['format']!r}")
        jobs = [Job.from_record(record) for record in content["jobs"]]
        return Document({job.id: job for job in jobs}, dict(content["paused"]))


class DocumentFile:
    """The document at `path`, and a lock beside it for those who change it.

    Args:
        durable: whether a change survives loss of power; it survives the end of every process in any case.

    Raises:
        StoreError: it cannot be made.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path = path
        self._lock_path = path.with_name(f"{path.name}.lock")
        self._durable = durable
        if not self._lock_path.exists() and not path.exists():
            self._create()

    def read(self) -> Document:
        """The document as it is now. Needs no lock: a rename shows the old content or the new, never a part.

        Raises:
            StoreUnreadable: it is missing or damaged, which is never taken for a queue without jobs.
        """
        return self._read()[1]

    @contextmanager
    def changing(self) -> Iterator[Document]:
        """The document, locked. After the block its changes are durable; where the block raises, there are none.

        Raises:
            StoreLocked: another process held the lock for `LOCK_WAIT` seconds.
            StoreUnreadable: as `read`.
            StoreUnavailable: it cannot be written; the old content stands.
        """
        lock = FileLock(self._lock_path, timeout=LOCK_WAIT, mode=0o600, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            raise StoreLocked(f"another process has held {self._lock_path} for {LOCK_WAIT:g} s") from None
        except OSError as error:
            raise unavailable(error, self._lock_path) from None
        try:
            before, document = self._read()
            yield document
            after = document.encoded()
            if after != before:
                self._write(after)
        finally:
            lock.release()

    def _read(self) -> tuple[bytes, Document]:
        try:
            data = read_private(self.path)
            return data, Document.decoded(data)
        except FileNotFoundError:
            raise StoreUnreadable(f"{self.path} is missing; put a backup there") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreUnreadable(f"{self.path} is damaged ({described(error)}); put a backup in its place") from None

    def _write(self, data: bytes) -> None:
        for unfinished in self.path.parent.glob(f".{self.path.name}.*.new"):  # of a writer that was killed
            unfinished.unlink(missing_ok=True)
        replace(self.path, data, durable=self._durable)

    def _create(self) -> None:
        """Begin without jobs, if nobody was faster; and before there is a lock, beside which no document means loss."""
        first = self.path.with_name(f".{self.path.name}.{os.urandom(8).hex()}.first")
        replace(first, Document({}, {}).encoded(), durable=self._durable)
        try:
            os.link(first, self.path)
            sync_directory(self.path.parent)
        except FileExistsError:
            pass
        finally:
            first.unlink()
