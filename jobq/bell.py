"""The bell of a store whose handles share a directory: a file that is written to when there may be something to do.

Who waits for it is in `jobq.watching`.
"""

from __future__ import annotations

import os

from jobq.errors import StoreUnavailable
from jobq.files import open_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobq.files import StrPath

CONTENT = b"\n"
"""What a bell always holds; it is the writing that is heard."""


class Bell:
    """Rings the bell at `path`; its file is kept open, and made where there is none."""

    def __init__(self, path: StrPath) -> None:
        self._path = path
        self._fd = -1

    def ring(self) -> None:
        """Wake whoever waits for something to do.

        Raises:
            UnsafeHome: a link, or somebody else's file, stands there.
        """
        try:
            if self._fd < 0:
                self._fd = open_private(self._path, os.O_WRONLY | os.O_CREAT)
            os.pwrite(self._fd, CONTENT, 0)
        except (OSError, StoreUnavailable):  # full or read-only: who waits looks again after its poll interval
            return

    def close(self) -> None:
        """Free the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
