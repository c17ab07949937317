"""The notice at a store's door while its jobs are moved, and what may be done to a store that has one."""

from __future__ import annotations

from jobq.errors import StoreMoved
from jobq.job import State
from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobq.job import Job

LEAVING, LEFT, ARRIVING = "leaving", "left", "arriving"

_ALLOWED = {
    LEAVING: frozenset({"claim", "settle", "read"}),
    LEFT: frozenset[str](),
    ARRIVING: frozenset({"claim", "settle", "read", "restore", "pause", "delete"}),
}


@record(frozen=True, kw_only=True)
class Notice:
    """What stands at a store's door while its jobs are moved, and in the old store for ever after.

    Attributes:
        state: `leaving`: its jobs are being taken away; `left`: they are elsewhere; `arriving`: jobs are being
            brought here.
        url: the other store, without a password.
    """

    state: str
    url: str

    @property
    def moved(self) -> StoreMoved:
        """The error of what it does not allow."""
        return StoreMoved(self.state, self.url)


def heed(notice: Notice | None, act: str, before: Job | None = None) -> None:
    """Refuse what the notice of a store does not allow. Every store asks this instead of knowing the rules.

    A `claim` that is let through records what ended; where there is a notice it hands out nothing, which is for the
    store to see to.

    Args:
        notice: the store's, None where it has none.
        act: `add`, `delete`, `prune`, `claim`, `change`, `restore`, `pause` or `read`.
        before: for a `change`, the job as the caller knows it: one that is `processing` may be changed as long as
            its store is not `left`, or no run could end.

    Raises:
        StoreMoved: it is not allowed.
    """
    if notice is None:
        return
    if before is not None and before.state is State.PROCESSING:
        act = "settle"
    if act not in _ALLOWED[notice.state]:
        raise notice.moved
