"""What a worker makes of the notice at its store's door: it claims nothing while there is one, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.notices import LEAVING, LEFT

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.errors import StoreMoved
    from jobq.notices import Notice
    from jobq.store import Store


class Door:
    """The notice as it was when last looked at.

    Args:
        note: hears of each change.

    Attributes:
        notice: None where there is none, and the store is open.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.notice: Notice | None = None

    def look(self, store: Store) -> bool:
        """Look at it; whether it has changed.

        Raises:
            StoreError: the store does not tell.
        """
        before, self.notice = self.notice, store.notice()
        if self.notice == before:
            return False
        now = self.notice
        if now is None:
            self._note("the notice at the store is gone; going on")
        elif now.state == LEAVING:
            self._note(f"{self.state}; finishing what runs, and waiting until it is there")
        else:
            self._note(f"{self.state}; claiming nothing until that is over" if now.state != LEFT else self.state)
        return True

    @property
    def left(self) -> StoreMoved | None:
        """What is to be raised where the jobs are in another store now; None where they are not."""
        return self.notice.moved if self.notice is not None and self.notice.state == LEFT else None

    @property
    def state(self) -> str:
        """What it says, in a few words; "" where there is none."""
        return "" if self.notice is None else self.notice.moved.what
