"""One line of a store file: compact JSON that ends in its own checksum.

Every line ends in `,"crc":"xxxxxxxx"}`, the crc32 of the bytes before, in hexadecimal. A job's line begins with what
is needed to place the job without parsing the rest, in a fixed order:

    {"id":"…","seq":7,"run_at":"…","state":"pending","queue":"default","priority":0,"losses":0[,"handler":"…"],…

Ids and queue names need no escapes, so an id can be searched for in raw bytes. Everything is ASCII: json escapes the
rest.
"""

from __future__ import annotations

from zlib import crc32

from jobq.codec import NO_JSON, encode, scan
from jobq.errors import StoreUnreadable
from jobq.job import Job
from jobq.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUFFIX = 18
"""The length of what the checksum adds to a line."""

_PLACED = ("id", "run_at", "state", "queue", "priority", "losses", "handler")


def seal(text: str) -> bytes:
    """The line of a JSON object's text (with its closing brace, without line feed), checksum added, no line feed."""
    body = text[:-1].encode("ascii")
    return b'%b,"crc":"%08x"}' % (body, crc32(body))


def sound(line: bytes) -> bool:
    """Whether a line (without line feed) is what was written: its checksum fits."""
    if len(line) <= SUFFIX:
        return False
    return line[-SUFFIX:] == b',"crc":"%08x"}' % crc32(memoryview(line)[:-SUFFIX])


def parse(line: bytes, *, checked: bool = False) -> dict[str, Any] | None:
    """The object of a line, without its checksum; None where the line is damaged or holds no object.

    `checked`: the checksum was found right before.

    Raises:
        StoreUnreadable: it is what was written, but more than can be read here: too deep, or with too long a number.
    """
    if not checked and not sound(line):
        return None
    try:
        record, end = scan(line.decode("ascii"), 0)
    except (RecursionError, *NO_JSON) as error:
        from json import JSONDecodeError

        if isinstance(error, (StopIteration, SystemError, JSONDecodeError, UnicodeDecodeError)):
            return None
        raise StoreUnreadable(f"a record is sound, but cannot be read here: {error}") from None
    if not isinstance(record, dict) or end != len(line):
        return None
    record.pop("crc", None)
    return record


def job_line(job: Job, seq: int) -> bytes:
    """The line of a job (without line feed)."""
    record = job.record()
    for name in _PLACED:
        record.pop(name, None)
    handler = "" if job.handler is None else f',"handler":{encode(job.handler)}'
    head = (
        f'{{"id":"{job.id}","seq":{seq},"run_at":"{format_time(job.run_at)}","state":"{job.state}",'
        f'"queue":"{job.queue}","priority":{job.priority},"losses":{job.losses}{handler}'
    )
    return seal(f"{head},{encode(record)[1:]}" if record else head + "}")


def job_of(line: bytes, *, checked: bool = False) -> Job | None:
    """The job of a line; None where the line is damaged or holds no job. `checked`: as in `parse`.

    Raises:
        StoreUnreadable: as `parse` does.
    """
    record = parse(line, checked=checked)
    if record is None:
        return None
    record.pop("seq", None)
    try:
        return Job.from_record(record)
    except (KeyError, ValueError, TypeError):
        return None
