"""Looking for jobs by id in the raw bytes of files whose lines begin with `{"id":"…"`.

No line feed stands inside a line, so a line feed, a brace and an id together are conclusive. One id is searched for;
many are found in one pass over the lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from mmap import mmap

_FEW = 8
_LINE_IDS = re.compile(rb'\n\{"id":"([^"]+)"')


def locate(data: mmap, ids: Collection[str], *, start: int, end: int) -> dict[str, int]:
    """The offsets of the lines of those of the ids that are there.

    Args:
        data: a file whose lines from `start` on are jobs, each behind a line feed.
        ids: what to look for.
        start: the offset of the first line.
        end: the offset behind the last line.
    """
    if end <= start:
        return {}
    found: dict[str, int] = {}
    if len(ids) <= _FEW:
        for job_id in ids:
            offset = data.find(b'\n{"id":"%b"' % job_id.encode(), start - 1, end)
            if offset >= 0:
                found[job_id] = offset + 1
        return found
    wanted = {job_id.encode() for job_id in ids}
    for match in _LINE_IDS.finditer(data, start - 1, end):
        if match[1] in wanted:
            found[match[1].decode()] = match.start() + 1
    return found


def each_id(data: mmap, start: int, end: int) -> Iterator[bytes]:
    """The ids of all lines, in their order and one at a time."""
    if end > start:
        for match in _LINE_IDS.finditer(data, start - 1, end):
            yield match[1]
