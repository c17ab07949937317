"""What has ended and is not yet recorded, and what is told once it is."""

from __future__ import annotations

import pytest

from jobq.app import App
from jobq.executor import Kind, Outcome
from jobq.store import Claimed, Wanted
from jobq.testing import FakeClock, MemoryStore, make_info, make_job, new
from jobq.unrecorded import Unrecorded

PRINTED = Outcome(kind=Kind.SUCCESS, exit_code=0, tail="the end\n")


class SharedStore(MemoryStore):
    """One that says that it spans machines."""

    capabilities = MemoryStore.capabilities | {"hosts"}


def one(tmp_path, store, finished=None):
    """What ended in a worker that has claimed one job, and the claim."""
    app = App(home=str(tmp_path / "home"), environ={}, clock=FakeClock(), warn=pytest.fail, store=store)
    store.add(new(make_job("one")), now=app.clock.now())
    member = store.join(make_info())
    (claim,) = store.claim(member, wanted=Wanted(), limit=1, now=app.clock.now()).claims
    return Unrecorded(app, lambda *_: None, finished), claim


@pytest.mark.parametrize(("store", "kept"), [(MemoryStore, None), (SharedStore, "the end\n")])
def test_the_end_of_the_output_is_kept_where_the_store_spans_machines(tmp_path, store, kept):
    unrecorded, claim = one(tmp_path, store())
    unrecorded.add(claim, PRINTED, begun=True)
    (ended,) = unrecorded.ends
    assert ended.change.run.tail == kept


def test_what_the_store_has_taken_is_counted_and_told_once(tmp_path):
    told = []
    unrecorded, claim = one(tmp_path, MemoryStore(), told.append)
    unrecorded.add(claim, PRINTED, begun=True)
    assert unrecorded.runs == {("one", 1)}
    assert unrecorded.recorded(Claimed([], []), FakeClock().now())
    assert [job.state for job in told] == ["completed"]
    assert (unrecorded.summary.completed, len(unrecorded)) == (1, 0)
    assert not unrecorded.recorded(Claimed([], []), FakeClock().now())
    assert len(told) == 1


def test_what_was_refused_or_is_let_go_of_is_discarded(tmp_path):
    told = []
    unrecorded, claim = one(tmp_path, MemoryStore(), told.append)
    unrecorded.add(claim, PRINTED, begun=True)
    unrecorded.recorded(Claimed([], [claim]), FakeClock().now())
    unrecorded.add(claim, PRINTED, begun=True)
    unrecorded.discard()
    assert (unrecorded.summary.discarded, unrecorded.summary.completed, told) == (2, 0, [])


def test_what_was_claimed_and_did_not_begin_is_handed_back_as_if_it_had_not_been(tmp_path):
    told = []
    unrecorded, claim = one(tmp_path, MemoryStore(), told.append)
    unrecorded.add(claim, Outcome(kind=Kind.RELEASED, reason="handed back"), begun=False)
    (ended,) = unrecorded.ends
    assert ended.change.run is None
    unrecorded.recorded(Claimed([], []), FakeClock().now())
    assert told == []
