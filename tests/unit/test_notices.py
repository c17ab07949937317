"""What the notice at a store's door allows, what may replace it, and which jobs a restore has yet to store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobq.errors import DuplicateJob, InvalidInput, NotEmpty, NoticeChanged
from jobq.job import State
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice, arrivals, empties
from jobq.testing import make_job

NONE, COMING, GOING, GONE = None, *(Notice(state=state, url="json:x") for state in (ARRIVING, LEAVING, LEFT))


@pytest.mark.parametrize(
    ("stands", "notice", "emptied"),
    [
        (NONE, COMING, True),
        (GOING, COMING, True),
        (COMING, COMING, False),
        (COMING, replace(COMING, url="json:y"), False),
        (NONE, GOING, False),
        (GOING, GONE, False),
        (COMING, NONE, False),
        (GONE, GONE, False),
        (GONE, replace(GONE, url="json:y"), False),
        (GONE, COMING, True),
        (GONE, NONE, True),
        (GONE, GOING, True),
    ],
)
def test_what_is_behind_a_notice_goes_with_it_or_stays(stands, notice, emptied):
    asked = {"before": stands, "stands": stands, "url": "json:"}
    assert empties(notice, jobs=0, **asked) is emptied
    if emptied and stands != GONE:
        with pytest.raises(NotEmpty, match="2 jobs are in json: already"):
            empties(notice, jobs=2, **asked)
    else:
        assert empties(notice, jobs=2, **asked) is emptied


@pytest.mark.parametrize("stands", [NONE, COMING, replace(GOING, url="json:y"), replace(COMING, left="json:z")])
def test_what_stands_is_replaced_by_whoever_saw_it(stands):
    with pytest.raises(NoticeChanged, match="changed by somebody else"):
        empties(None, before=GOING, stands=stands, jobs=0, url="json:")


def test_a_notice_is_its_record():
    for notice in (GOING, replace(COMING, left="json:before")):
        assert Notice.from_record(notice.record()) == notice
    assert GOING.record() == {"state": "leaving", "url": "json:x"}


def test_what_is_stored_already_does_not_arrive():
    one, two = make_job("one"), make_job("two")
    assert arrivals([one, two], {"one": one.version}) == [two]
    with pytest.raises(DuplicateJob) as caught:
        arrivals([one, two, two], {"one": replace(one, rev=9).version})
    assert caught.value.ids == ("one", "two")
    with pytest.raises(InvalidInput, match="job one is processing"):
        arrivals([make_job("one", state=State.PROCESSING, run=1, worker="w")], {})
