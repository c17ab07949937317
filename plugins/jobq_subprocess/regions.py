"""The file of a worker in which its children note what they begin: who has which region of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobq.files import open_private, private_directory
from jobq.started import path_of

if TYPE_CHECKING:
    from pathlib import Path


class Regions:
    """Hands out regions; a child that follows another in its region goes on behind that one's notes.

    Args:
        home: the home directory.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._descriptor = -1
        self._taken: set[int] = set()

    def open(self, worker_id: str) -> int:
        """The descriptor of the file, which is made for the first child.

        Raises:
            StoreError, UnsafeHome: it cannot be.
        """
        if self._descriptor < 0:
            path = path_of(self._home, worker_id)
            private_directory(path.parent)
            self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        return self._descriptor

    def take(self) -> int:
        """The number of a region that nobody has."""
        region = next(number for number in range(len(self._taken) + 1) if number not in self._taken)
        self._taken.add(region)
        return region

    def free(self, region: int) -> None:
        """Its child is gone."""
        self._taken.discard(region)

    def close(self) -> None:
        """Close the file, which stays for whoever recovers this worker."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
