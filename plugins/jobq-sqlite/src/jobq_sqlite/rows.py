"""Jobs as rows of the table `jobs`, and back."""

from __future__ import annotations

from jobq.codec import encode, loads
from jobq.job import EPOCH, FINISHED, Job
from jobq.light import timedelta
from jobq.store import runs_alone
from jobq.times import ceil_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

_MS = timedelta(milliseconds=1)

CHANGING = (
    "state", "queue", "handler", "alone", "priority", "run_at", "worker", "rev", "updated", "ended", "tagged", "record",
)  # fmt: skip
"""The columns that a change may alter; the others stay what they were when the job was added."""

RECORD = "CAST(record AS BLOB)"
"""How a record is read: what the disk made of it need not be a text any more."""
RECORD_OF = "SELECT CAST(record AS BLOB) FROM jobs WHERE seq = ?"

INSERT = f"INSERT INTO jobs (seq, id, created, {', '.join(CHANGING)}) VALUES (?, ?, ?{', ?' * len(CHANGING)})"  # noqa: S608 - of constants
UPDATE = f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in CHANGING)} WHERE seq = ?"  # noqa: S608 - of constants


def ms(moment: datetime) -> int:
    """Whole milliseconds since 1970; what is below one is cut off."""
    return (moment - EPOCH) // _MS


def first_ms(moment: datetime) -> int:
    """The first whole millisecond since 1970 that is not before `moment`."""
    return ms(ceil_ms(moment))


def instant(milliseconds: int) -> datetime:
    """The instant so many milliseconds after 1970."""
    return EPOCH + milliseconds * _MS


def values(job: Job) -> list[Any]:
    """The values of `CHANGING`; `ended` is left for `numbered`.

    Raises:
        ValueError, TypeError, RecursionError: the job cannot be written as JSON.
    """
    return [
        job.state.value,
        job.queue,
        job.handler or "",
        int(runs_alone(job)),
        job.priority,
        ms(job.run_at),
        job.worker,
        job.rev,
        ms(job.updated_at),
        None,
        int(bool(job.tags)),
        encode(job.record()),
    ]


def numbered(row: list[Any], ended: int) -> list[Any]:
    """What `values` gave of a finished job, with its number in the order of finishing."""
    row[CHANGING.index("ended")] = ended
    return row


def job_of(record: bytes) -> Job | None:
    """The job of a record; None where it is damaged."""
    try:
        return Job.from_record(loads(record))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def fits(job: Job) -> bool:
    """Whether SQLite can store what a damaged record turned out to be."""
    try:
        row = [job.id, ms(job.created_at), *values(job), *job.tags]
    except (ValueError, TypeError, RecursionError):
        return False
    return all(
        value.bit_length() < 64 if isinstance(value, int) else isinstance(value, str | None) and can_be_stored(value)
        for value in row
    )


def can_be_stored(text: str | None) -> bool:
    """Whether there can be a job that has this text; what is no Unicode there cannot, and SQLite would not take it."""
    try:
        return text is None or text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def is_finished(job: Job) -> bool:
    """Whether it has a number in the order of finishing."""
    return job.state in FINISHED


def marks(values: Sequence[Any]) -> str:
    """So many question marks, for `IN`."""
    return ", ".join("?" * len(values))
