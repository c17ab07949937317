"""The notice at a store's door while its jobs are moved, and what may be done to a store that has one."""

from __future__ import annotations

from jobq.errors import HIDDEN, DuplicateJob, InvalidInput, NotEmpty, NoticeChanged, StoreMoved
from jobq.job import State
from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

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
        left: of an `arriving` one that stands in place of a `left` one, the URL of that: it goes up again where the
            move is taken back. Else "".
    """

    state: str
    url: str
    left: str = ""

    @property
    def moved(self) -> StoreMoved:
        """The error of what it does not allow."""
        return StoreMoved(self.state, self.url)

    def way_on(self, here: str) -> str:
        """What leads on from it where nobody is about the move any more, as commands.

        Args:
            here: the URL of the store that it stands at.
        """
        if self.state == LEFT:
            return f"use --store {self.url}"
        if self == UNKNOWN:
            return f"if its jobs are in no other store, `jobq --store {here} move --abort --force` opens this one"
        if self.state == LEAVING:
            move = f"jobq --store {here} move"
            return f"`{move} --to {self.url}` goes on with it, `{move} --abort` takes it back"
        move = f"jobq --store {self.url} move --to {here}"
        return (
            f"`{move}` goes on with it, `{move} --abort` takes it back; where that store is gone for good, "
            f"`jobq --store {here} move --abort --force` opens this one with the jobs that have arrived"
        )

    def record(self) -> dict[str, str]:
        """Its JSON object."""
        return {"state": self.state, "url": self.url, **({"left": self.left} if self.left else {})}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Notice:
        """The notice of its JSON object.

        Raises:
            KeyError, TypeError, ValueError: it is no notice's.
        """
        notice = cls(state=record["state"], url=record["url"], left=record.get("left", ""))
        if notice.state not in _ALLOWED or not isinstance(notice.url, str) or not isinstance(notice.left, str):
            raise ValueError(notice)
        return notice


UNKNOWN = Notice(state=LEAVING, url="unknown:")
"""What a mended store puts up when it cannot be read any more whether there was a notice; `jobq move --abort --force`
takes it down. Without one, jobs that are elsewhere would run here too."""


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


def empties(notice: Notice | None, *, before: Notice | None, stands: Notice | None, jobs: int, url: str) -> bool:
    """Whether a store that puts up `notice` is emptied by that, of jobs and pauses. Every store asks this, in the
    transaction that puts it up.

    What is behind a `left` notice is elsewhere, and goes when another one is put in its place; and a store in which
    jobs are arriving has none but those.

    Args:
        notice: the new one, None to take down what stands.
        before: what the caller takes to stand there.
        stands: what does.
        jobs: how many jobs there are.
        url: the store's.

    Raises:
        NoticeChanged: another one stands there than the caller takes to.
        NotEmpty: jobs are to arrive where others are.
    """
    if stands != before:
        raise NoticeChanged(url)
    state = None if notice is None else notice.state
    if stands is not None and stands.state == LEFT:
        return state != LEFT
    if state != ARRIVING or (stands is not None and stands.state == ARRIVING):
        return False
    if jobs:
        raise NotEmpty(url, jobs)
    return True


def arrivals(jobs: Sequence[Job], versions: Mapping[str, object]) -> list[Job]:
    """Those of the jobs that a `restore` has yet to store; it refuses the others for every store.

    Args:
        jobs: as they were handed in.
        versions: `Job.version` of those that are stored already, by id.

    Raises:
        DuplicateJob: some come twice, or are stored with another version.
        InvalidInput: one is processing.
    """
    seen: set[str] = set()
    taken: dict[str, None] = {}
    for job in jobs:
        if job.state is State.PROCESSING:
            raise InvalidInput("state", HIDDEN, f"job {job.id} is processing and cannot be taken over")
        if job.id in seen or versions.get(job.id, job.version) != job.version:
            taken[job.id] = None
        seen.add(job.id)
    if taken:
        raise DuplicateJob(taken)
    return [job for job in jobs if job.id not in versions]
