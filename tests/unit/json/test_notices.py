"""The notice in the files: where it stands, what keeps it, and a process that dies or fails while putting it up."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

import jobq_json
from jobq import files
from jobq.errors import NotEmpty, StoreError, StoreMoved
from jobq.job import State
from jobq.notices import ARRIVING, LEAVING, LEFT, UNKNOWN, Notice
from jobq.testing import START, aged, make_context, make_job, make_settings
from jobq_json.directory import Directory

(PROVIDER,) = jobq_json.jobq_stores()
NOTICE = Notice(state=LEAVING, url='json:"x y"/é')


@pytest.fixture
def full(kit):
    """A store with something in the run, the archive and the journal."""
    store = kit.open()
    kit.add(store, "a", "b")
    kit.work(store)
    kit.compact(store)
    kit.add(store, "c")
    return store


def test_it_stands_in_the_manifest_and_only_there(kit, full):
    before = [job.record() for job in kit.jobs(full)]
    assert b'"format": 1' in (kit.queue / "queue.json").read_bytes()
    full.post(NOTICE, before=full.notice(), now=START)
    text = (kit.queue / "queue.json").read_bytes()
    assert b'"format": 2' in text
    assert b'"notice": {"state": "leaving", "url"' in text
    assert kit.open().notice() == NOTICE
    assert [job.record() for job in kit.jobs(kit.open())] == before
    full.post(None, before=full.notice(), now=START)
    assert b'"format": 1' in (kit.queue / "queue.json").read_bytes()
    assert b"notice" not in (kit.queue / "queue.json").read_bytes()


def test_a_compaction_and_a_repair_keep_it(kit, full):
    full.post(NOTICE, before=full.notice(), now=START)
    kit.compact(full)
    assert kit.open().notice() == NOTICE
    assert kit.open().repair() == []
    run = next(kit.queue.glob("jobs-*.jsonl"))
    data = bytearray(run.read_bytes())
    data[data.index(b'"state":"pending"') + 10] ^= 1
    run.write_bytes(data)
    kit.open().repair()
    assert kit.open().notice() == NOTICE


def test_a_journal_that_cannot_be_synced_is_left_behind_with_it(kit, monkeypatch):
    full = kit.open()
    full.post(Notice(state=ARRIVING, url="json:x"), before=full.notice(), now=START)
    failed = []

    def sync(descriptor):
        if not failed and "journal-" in os.readlink(f"/proc/self/fd/{descriptor}"):
            failed.append(descriptor)
            raise OSError(5, "Input/output error")
        os.fsync(descriptor)

    monkeypatch.setattr(files, "sync", sync)
    full.restore([make_job("brought")], now=START)
    assert failed
    assert kit.open().notice() == Notice(state=ARRIVING, url="json:x")
    assert kit.open().get("brought").state is State.PENDING


def test_a_handle_that_only_adds_heeds_it_without_a_view(kit):
    adder = kit.open()
    kit.add(adder, "first")
    kit.open().post(NOTICE, before=kit.open().notice(), now=START)
    with pytest.raises(StoreMoved):
        kit.add(adder, "second")
    assert [job.id for job in kit.jobs(kit.open())] == ["first"]


STEPS = ("write", "prepare", "put_in_force", "sync", "sweep")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("way", ["to leaving", "from left"])
def test_a_process_that_is_killed_while_it_posts_leaves_the_old_or_the_new(kit, full, way, step, after):
    from jobq.testing.forks import Fork  # not before the contracts, which have its asserts rewritten

    jobs = [job.record() for job in kit.jobs(full)]
    old, new = (None, NOTICE) if way == "to leaving" else (Notice(state=LEFT, url="json:x"), None)
    if old is not None:
        full.post(old, before=full.notice(), now=START)
    full.close()

    def post(say):
        whole = getattr(Directory, step)

        def killed(*args, **kwargs):
            if after:
                whole(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(Directory, step, killed)
        store = kit.open()
        say("posting")
        store.post(new, before=store.notice(), now=START)
        say("posted")

    with Fork(post) as fork:
        assert fork.hear_all() == ["posting"]
        fork.wait()
    stands = kit.open().notice()
    assert stands in (old, new)
    store = kit.open()
    store.post(new, before=store.notice(), now=START)
    assert store.notice() == new
    assert store.check() == []
    assert [job.record() for job in kit.jobs(store)] == (jobs if way == "to leaving" else [])
    assert store.repair() == []


@pytest.mark.parametrize("step", [each for each in STEPS if each != "sweep"])
def test_a_post_that_fails_leaves_a_store_that_works(kit, full, step, monkeypatch):
    def fail(*args, **kwargs):
        raise StoreError("full")

    monkeypatch.setattr(Directory, step, fail)
    with pytest.raises(StoreError, match="full"):
        full.post(NOTICE, before=full.notice(), now=START)
    monkeypatch.undo()
    if full.notice() is None:
        kit.add(full, "more")
    full.post(NOTICE, before=full.notice(), now=START)
    assert kit.open().notice() == NOTICE
    assert kit.open().check() == []


def test_a_store_that_cannot_be_written_to_still_says_what_its_notice_is(kit, full):
    full.post(NOTICE, before=full.notice(), now=START)
    kit.queue.chmod(0o500)
    try:
        assert kit.open().notice() == NOTICE
    finally:
        kit.queue.chmod(0o700)


def test_asking_for_a_notice_makes_no_store(kit):
    assert kit.open().notice() is None
    assert not kit.queue.exists()


def test_what_was_taken_over_survives_a_compaction_and_is_pruned_in_its_order(kit):
    store = kit.open()
    jobs = [aged(make_job(f"j{number}"), State.COMPLETED) for number in range(5)]
    store.restore([*jobs, make_job("waits")], now=START)
    before = [job.record() for job in kit.jobs(store)]
    kit.compact(store)
    assert [job.record() for job in kit.jobs(kit.open())] == before
    assert [job["id"] for job in before] == ["waits", "j4", "j3", "j2", "j1", "j0"]
    later = START.replace(year=START.year + 1)
    assert store.prune(states=frozenset({State.COMPLETED}), before=later, limit=2) == ["j0", "j1"]


def test_a_record_longer_than_what_is_read_at_once_is_read(kit):
    """All jobs of a restore are one record."""
    store = kit.open()
    jobs = [make_job(f"j{number}", env={"LONG": "x" * 100_000}) for number in range(100)]
    store.restore(jobs, now=START)
    kit.add(store, "next")
    assert [job.id for job in kit.jobs(kit.open())] == [*(job.id for job in jobs), "next"]
    assert kit.open().check() == []


@pytest.mark.parametrize("notice", [Notice(state=LEFT, url="json:x"), Notice(state=ARRIVING, url="json:x", left="y")])
def test_what_is_posted_again_is_brought_to_the_disk_and_so_is_what_empties(kit, notice, monkeypatch):
    """Who put it up may have died before the directory was synced; and then nobody has said that it is durable."""
    store, calls = kit.open(), []
    store.post(Notice(state=LEFT, url="json:x"), before=None, now=START)
    for name in ("put_in_force", "sync", "sweep"):
        monkeypatch.setattr(Directory, name, _told(calls, name, getattr(Directory, name)))
    store.post(notice, before=store.notice(), now=START)
    assert calls == (["sync"] if notice.state == LEFT else ["put_in_force", "sync", "sweep"])
    assert kit.open().notice() == notice
    calls.clear()
    store.post(notice, before=notice, now=START)
    assert calls == ["sync"]


def _told(calls, name, call):
    def told(*args, **kwargs):
        calls.append(name)
        return call(*args, **kwargs)

    return told


def test_a_job_that_is_added_while_others_are_to_arrive_is_not_lost(kit, monkeypatch):
    """Between the look at the store and the lock."""
    store, adder = kit.open(), kit.open()
    locked = Directory.locked

    def late(directory):
        if directory is store.access.directory:
            monkeypatch.setattr(Directory, "locked", locked)
            if adder.counts(now=START).queues:
                return locked(directory)
            kit.add(adder, "late")
        return locked(directory)

    store.access.create()
    store.counts(now=START)
    monkeypatch.setattr(store.access, "create", lambda: None)
    monkeypatch.setattr(Directory, "locked", late)
    with pytest.raises(NotEmpty):
        store.post(Notice(state=ARRIVING, url="json:x"), before=None, now=START)
    assert [job.id for job in kit.jobs(kit.open())] == ["late"]
    assert kit.open().notice() is None


def test_two_names_of_one_directory_are_one_store(kit, tmp_path):
    store = kit.open()
    (tmp_path / "link").symlink_to(kit.queue)
    before = store.identity()
    assert before == _at(kit, "queue").identity() == _at(kit, str(tmp_path / "link")).identity()
    kit.add(store, "a")
    assert store.identity() == _at(kit, "queue").identity() == _at(kit, str(tmp_path / "link")).identity()
    assert store.identity() != _at(kit, "other").identity()


def _at(kit, url):
    return PROVIDER.make(make_settings(), replace(make_context(kit.home), url=url))


@pytest.mark.parametrize("footer", [True, False], ids=["footer", "no footer"])
@pytest.mark.parametrize("state", [LEFT, LEAVING])
def test_it_outlives_the_manifest_and_the_footer_of_the_run(kit, full, state, footer):
    """Without it, jobs that are elsewhere would run here too."""
    notice = Notice(state=state, url="json:x")
    full.post(notice, before=None, now=START)
    full.close()
    _lose_manifest(kit, footer=footer)
    told = kit.open().repair()
    assert any(("built again" if footer else "no complete generation") in sentence for sentence in told)
    assert kit.open().notice() == notice


@pytest.mark.parametrize("journal", ["gone", "damaged", "of another kind"])
def test_where_it_cannot_be_read_any_more_nothing_runs_until_somebody_says_so(kit, full, journal):
    full.post(Notice(state=LEFT, url="json:x"), before=None, now=START)
    full.close()
    _lose_manifest(kit, footer=False)
    (path,) = kit.queue.glob("journal-*")
    if journal == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"left", b"LEFT" if journal == "damaged" else b"lost"))
    told = kit.open().repair()
    assert any("cannot be read any more" in each and "jobq move --abort --force" in each for each in told)
    store = kit.open()
    assert store.notice() == UNKNOWN
    assert kit.work(store, limit=5) == []
    with pytest.raises(StoreMoved):
        kit.add(store, "more")
    assert not any("cannot be read" in each for each in store.repair())


def test_the_footer_tells_of_it_where_the_journal_is_gone(kit, full):
    full.post(NOTICE, before=None, now=START)
    full.close()
    _lose_manifest(kit, footer=True)
    (path,) = kit.queue.glob("journal-*")
    path.unlink()
    kit.open().repair()
    assert kit.open().notice() == NOTICE


def test_a_store_without_one_has_none_when_the_manifest_and_the_footer_are_lost(kit, full):
    full.close()
    _lose_manifest(kit, footer=False)
    kit.open().repair()
    assert kit.open().notice() is None


def _lose_manifest(kit, *, footer):
    (kit.queue / "queue.json").unlink()
    (run,) = kit.queue.glob("jobs-*")
    if not footer:
        run.write_bytes(run.read_bytes()[:-20])
