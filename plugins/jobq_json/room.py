"""Room: zero bytes behind the last line of a journal, for the next ones to be written over.

A sync of bytes that a file had before brings the bytes to the disk; of bytes that are new at its end, their file's new
size too, which takes as long again.

What was written into room and not synced may be on the disk in part when the power fails: sectors that were written
later, and zeros where an earlier one should be. Such a hole ends the data as room does: what stands behind it was never
acknowledged. It goes on to the end of its sector. A zero byte that does not is damage of what may have been
acknowledged, with more behind it.
"""

from __future__ import annotations

SECTOR = 512
"""Bytes that a disk writes as one, or a divisor of that."""

LEAST, MOST = 1 << 14, 1 << 18
"""Bytes of room."""


def room_behind(end: int, record: int) -> int:
    """Bytes of room to have behind a record of so many bytes that is written behind `end`: as many as there are before it.

    None for a large record, of which the size is the least that its sync takes.
    """
    room = min(max(end, LEAST), MOST)
    return room if record <= room else 0


def data_end(data: bytes, offset: int) -> int:
    """Where the data end in bytes of a journal: before room or a hole, or where the bytes end.

    Args:
        data: bytes up to the end of a sector, or of the journal.
        offset: where they stand in the journal.
    """
    at = data.find(0)
    while at >= 0:
        end = min(at + SECTOR - (offset + at) % SECTOR, len(data))
        if (end - at > 1 or end == len(data)) and not data[at:end].strip(b"\0"):
            return at
        at = data.find(0, at + 1)
    return len(data)
