"""Many jobs one after the other: in batches, and in the other direction than they come in."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from jobq.codec import encode, loads
from jobq.files import unavailable
from jobq.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def batches(jobs: Iterable[Job], count: int) -> Iterator[list[Job]]:
    """The jobs, in lists of `count` of them; the last may be shorter."""
    left = iter(jobs)
    while batch := list(islice(left, count)):
        yield batch


@contextmanager
def backwards(jobs: Iterable[Job], directory: Path) -> Iterator[Iterator[Job]]:
    """The jobs, the last one first. They wait in a file in `directory` that has no name, not in memory.

    Raises:
        StoreUnavailable: the file cannot be written.
    """
    sizes: list[int] = []
    try:
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - it is closed below, whatever comes between
        try:
            sizes.extend(file.write(encode(job.record()).encode("ascii")) for job in jobs)
            file.flush()
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise unavailable(error, directory) from None

    def read() -> Iterator[Job]:
        position = sum(sizes)
        for size in reversed(sizes):
            position -= size
            file.seek(position)
            yield Job.from_record(loads(file.read(size)))

    with file:
        yield read()
