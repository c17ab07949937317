"""Records that are damaged, by a byte that is no UTF-8 or none that is JSON: told, in nobody's way, and kept."""

import pytest

from jobq.errors import StoreUnreadable
from jobq.job import ENDED, State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info
from jobq.testing.store_fixtures import success

LATE = START.replace(year=3000)
NO_JSON = "UPDATE jobs SET record = 'no' WHERE id = '{}'"
NO_TEXT = "UPDATE jobs SET record = CAST(x'7b80' || record AS TEXT) WHERE id = '{}'"
both = pytest.mark.parametrize("damage", [NO_JSON, NO_TEXT], ids=["no JSON", "no UTF-8"])


@both
def test_it_is_told_once_and_hinders_no_search(kit, damage):
    listed = kit.furnish()
    store = kit.open()
    kit.sql(damage.format("one"))
    for _ in range(2):
        assert kit.ids(store) == [name for name in listed if name != "one"]
        assert kit.ids(store, tag="red") == [name for name in listed if name not in ("one", "dead", "mail")]
    assert len(kit.warned) == 1
    assert "jobq doctor --repair" in kit.warned[0]
    assert store.get_many(["two"]).keys() == {"two"}
    with pytest.raises(StoreUnreadable, match=r"record of job .* is damaged"):
        store.get("one")
    assert store.check() == ["the record of job one is damaged", *store.check()[1:]]


@both
def test_a_claim_that_meets_it_sets_it_aside(kit, damage):
    """Or the job would stay the first that is due, and a worker come for it for ever."""
    kit.furnish()
    store = kit.open()
    kit.sql(damage.format("one"))
    assert kit.work(store, limit=9) == ["two", "three"]
    assert store.next_due(Wanted(), now=START) is None
    assert store.counts(now=START).damaged == 1
    assert [sentence for sentence in store.check() if "set aside before" not in sentence] == []
    assert len(kit.warned) == 1
    assert "set aside" in kit.warned[0]


@both
def test_where_nothing_else_is_due_nothing_is_due_any_more(kit, damage):
    store = kit.open()
    kit.add(store, "one", tags=("red",))
    kit.add(store, "alone", losses=2)
    kit.sql(damage.format("one"), damage.format("alone"))
    assert kit.work(store) == []
    assert store.next_due(Wanted(), now=START) is None
    assert store.counts(now=START).damaged == 2


@both
def test_one_that_runs_is_written_anew_at_its_end(kit, damage):
    store = kit.open()
    kit.add(store, "one", "two")
    presence = store.join(make_info())
    first, second = store.claim(presence, wanted=Wanted(), limit=2, now=START).claims
    kit.sql(damage.format("one"))
    assert [job.id for job in store.held(presence)] == ["two"]
    assert store.lost(now=START) == []
    assert store.finish(presence, [success(first), success(second)], now=START) == []
    assert store.get("one").state is State.COMPLETED
    assert store.check() == []
    presence.close()


@both
def test_one_whose_worker_is_gone_is_set_aside(kit, damage):
    """Nobody can tell which job it was: it would be under way for ever."""
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info())
    store.claim(presence, wanted=Wanted(), limit=1, now=START)
    kit.sql(damage.format("one"))
    presence.close(clean=False)
    ((_, held),) = store.lost(now=START)
    assert held == []
    counts = store.counts(now=START)
    assert (counts.states[State.PROCESSING], counts.damaged) == (0, 1)


@both
def test_old_ones_do_not_keep_others_from_being_pruned(kit, damage):
    kit.furnish()
    store = kit.open()
    kit.sql(damage.format("done-1"))
    assert store.prune(states=ENDED, before=LATE, limit=1) + store.prune(states=ENDED, before=LATE, limit=9) == [
        "done-2", "dead",
    ]  # fmt: skip
    assert store.counts(now=START).damaged == 1
    assert all("set aside before" in sentence for sentence in store.check())


@both
def test_mending_sets_it_aside_as_it_is(kit, damage):
    listed = kit.furnish()
    ((before,),) = kit.sql(damage.format("one"), "SELECT CAST(record AS BLOB) FROM jobs WHERE id = 'one'")
    kit.close()
    store = kit.open()
    assert store.repair()[1] == "1 damaged record was set aside, in the table `damaged`"
    assert [job.id for job in store.find(Query())] == [name for name in listed if name != "one"]
    assert kit.sql("SELECT record FROM damaged") == [(before,)]
    assert store.repair() == []
