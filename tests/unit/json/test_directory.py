"""The store's directory: who may be there, what is refused, and that looking creates nothing."""

import fcntl
import os
import shutil
import socket
import stat
import threading

import pytest

from jobq.errors import JobNotFound, NotSupported, StoreError, StoreLocked, StoreUnreadable, UnsafeHome
from jobq.store import Query, Wanted
from jobq.testing import START, make_context, make_job, make_settings, new
from jobq_json import directory, jobq_stores, locking, manifest


def test_looking_at_nothing_finds_nothing_and_creates_nothing(kit):
    store = kit.open()
    assert kit.jobs(store) == []
    assert store.counts(now=START).queues == {}
    assert store.next_due(Wanted(), now=START) is None
    assert store.lost(now=START) == []
    assert store.workers() == []
    assert store.check() == []
    assert store.delete([]) == []
    with pytest.raises(JobNotFound):
        store.get("one")
    assert not kit.queue.exists()


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_files_are_private_whatever_the_umask(kit, mask):
    before = os.umask(mask)
    try:
        store = kit.open()
        kit.add(store, "one", "two")
        kit.work(store)
        kit.compact(store)
        kit.add(store, "three")
    finally:
        os.umask(before)
    assert stat.S_IMODE(kit.queue.stat().st_mode) == 0o700
    for path in kit.queue.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def plant_link(path, victim):
    path.symlink_to(victim)


def plant_fifo(path, victim):
    os.mkfifo(path, 0o600)


def plant_directory(path, victim):
    path.mkdir()


def plant_socket(path, victim):
    here = os.getcwd()
    os.chdir(path.parent)  # the names of sockets must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.chdir(here)


@pytest.mark.parametrize("plant", [plant_link, plant_fifo, plant_directory, plant_socket])
@pytest.mark.parametrize(
    "name", ["queue.json", "jobs-2.jsonl", "journal-2.jsonl", "done-1.jsonl", "queue.lock", "compact.lock", "bell"]
)
def test_what_is_no_file_of_ours_is_refused_and_untouched(kit, tmp_path, name, plant):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    store = kit.open()
    kit.add(store, "one", "two")
    kit.work(store)
    kit.compact(store)
    store.close()
    path = kit.queue / name
    path.unlink()
    plant(path, victim)
    store = kit.open()
    trouble = []
    for act in (
        lambda: store.add([], now=START),
        lambda: kit.add(store, "three"),
        lambda: kit.jobs(store),
        store.check,
    ):
        try:
            act()
        except StoreError as error:
            trouble.append(str(error))
    try:
        kit.compact(store)
    except StoreError as error:
        trouble.append(str(error))
    if name != "bell":  # who rings it does without
        assert trouble
    assert victim.read_bytes() == b"precious"


def test_a_directory_open_to_others_is_refused(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.queue.chmod(0o750)
    with pytest.raises(UnsafeHome, match="chmod 700"):
        kit.jobs(kit.open())
    with pytest.raises(UnsafeHome, match="chmod 700"):
        kit.add(kit.open(), "two")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_refused(kit):
    store = kit.open()
    kit.add(store, "one")
    os.chown(kit.file("journal"), 65534, 65534)
    with pytest.raises(UnsafeHome, match="65534"):
        kit.jobs(kit.open())


@pytest.mark.parametrize("name", ["jobs-1.jsonl", "journal-1.jsonl"])
def test_data_without_a_manifest_is_no_empty_queue(kit, name):
    store = kit.open()
    kit.add(store, "one")
    kit.compact(store)
    kit.add(store, "two")
    store.close()
    (kit.queue / "queue.json").unlink()
    for act in (kit.jobs, lambda store: kit.add(store, "three"), lambda store: store.counts(now=START)):
        with pytest.raises(StoreUnreadable, match="doctor --repair"):
            act(kit.open())


def test_a_store_whose_making_was_interrupted_is_made_again(kit):
    store = kit.open()
    kit.open().watch(lambda: None)
    store.close()
    kit.close()
    (kit.queue / "queue.json").unlink()
    assert kit.jobs(kit.open()) == []
    with kit.file("journal").open("r+b") as file:
        file.truncate(20)
    assert kit.jobs(kit.open()) == []
    store = kit.open()
    kit.add(store, "one")
    assert [job.id for job in kit.jobs(kit.open())] == ["one"]


@pytest.mark.parametrize("kind", ["jobs", "done"])
def test_a_truncated_file_is_an_error_with_a_way_out(kit, kind):
    store = kit.open()
    kit.add(store, "one", "two")
    kit.work(store)
    kit.compact(store)
    path = kit.file(kind)
    os.truncate(path, path.stat().st_size - 1)
    for _ in range(2):
        with pytest.raises(StoreUnreadable, match=rf"{kind}.*truncated; .*doctor --repair"):
            list(kit.open().find(Query()))


@pytest.mark.parametrize("kind", ["jobs", "journal", "done"])
def test_a_missing_file_is_an_error_with_a_way_out(kit, kind):
    store = kit.open()
    kit.add(store, "one", "two")
    kit.work(store)
    kit.compact(store)
    kit.file(kind).unlink()
    with pytest.raises(StoreUnreadable, match=rf"{kind}.*missing; .*doctor --repair"):
        list(kit.open().find(Query()))
    if kind == "journal":
        with pytest.raises(StoreUnreadable, match="missing"):
            kit.add(kit.open(), "three")


def test_a_store_that_is_removed_while_in_use_is_not_made_anew(kit):
    store = kit.open()
    kit.add(store, "one")
    for path in kit.queue.iterdir():
        path.unlink()
    kit.queue.rmdir()
    for act in (kit.jobs, lambda store: kit.add(store, "two")):
        with pytest.raises(StoreUnreadable, match="removed"):
            act(store)
    assert not kit.queue.exists()


def remove_the_directory(queue):
    shutil.rmtree(queue)


def empty_the_directory(queue):
    for path in queue.iterdir():
        path.unlink()


@pytest.mark.parametrize("remove", [remove_the_directory, empty_the_directory])
def test_a_store_that_was_removed_is_no_empty_queue_until_it_is_begun_anew(kit, remove):
    store = kit.open()
    kit.add(store, "one")
    store.close()
    remove(kit.queue)
    for act in (kit.jobs, lambda store: kit.add(store, "two"), lambda store: store.watch(print), lambda s: s.check()):
        with pytest.raises(StoreUnreadable, match=r"gone.*doctor --repair"):
            act(kit.open())
    (told,) = kit.open().repair()
    assert "an empty store was begun" in told
    assert kit.jobs(kit.open()) == []
    kit.add(kit.open(), "two")
    assert kit.open().repair() == []
    assert [job.id for job in kit.jobs(kit.open())] == ["two"]


def test_a_store_without_its_mark_gets_one_with_the_next_write(kit):
    kit.add(kit.open(), "one")
    mark = kit.home / "queue.made"
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    mark.unlink()
    assert [job.id for job in kit.jobs(kit.open())] == ["one"]
    assert not mark.exists()
    kit.add(kit.open(), "two")
    shutil.rmtree(kit.queue)
    with pytest.raises(StoreUnreadable, match="gone"):
        kit.jobs(kit.open())


def test_a_removed_home_is_a_fresh_one(kit):
    kit.add(kit.open(), "one")
    for path in kit.home.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert kit.jobs(kit.open()) == []
    kit.add(kit.open(), "two")


def test_a_lock_that_is_held_for_ever_is_an_error(kit, monkeypatch):
    monkeypatch.setattr(locking, "LOCK_LIMIT", 0.05)
    store = kit.open()
    kit.add(store, "one")
    with open(kit.queue / "queue.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match=r"queue\.lock"):
            kit.add(kit.open(), "two")
        assert [job.id for job in kit.jobs(kit.open())] == ["one"]
    kit.add(kit.open(), "two")


def test_the_url_names_another_directory(tmp_path):
    store = jobq_stores()[0].make(make_settings(), make_context(tmp_path / "home", url="other"))
    store.add(new(make_job("one")), now=START)
    assert store.url == "json:other"
    assert (tmp_path / "home" / "other" / "queue.json").exists()
    store.close()


@pytest.mark.parametrize("url", ["link/../other", "./link//../other/", "{home}/link/../other"])
def test_the_url_goes_up_from_where_a_link_leads(tmp_path, url):
    """As the system does, whatever the letters say: else another URL of the same store would be another store."""
    home = tmp_path / "home"
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    home.mkdir(mode=0o700)
    (home / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    store = jobq_stores()[0].make(make_settings(), make_context(home, url=url.format(home=home)))
    store.add(new(make_job("one")), now=START)
    store.close()
    assert (tmp_path / "elsewhere" / "other" / "queue.json").exists()
    assert not (home / "other").exists()


MOUNTS = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
40 22 0:77 / /mnt/share rw,relatime shared:5 - {kind} server:/export rw,vers=4.2
"""


@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("cifs", True), ("tmpfs", False), ("overlay", False)])
def test_network_file_systems_are_refused_unless_forced(kit, monkeypatch, tmp_path, kind, refused):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(kind=kind))
    monkeypatch.setattr(directory, "_MOUNTS", str(mounts))
    refuse = directory._refuse_network
    monkeypatch.setattr(directory, "_refuse_network", lambda path, device: refuse(path, os.makedev(0, 77)))
    if refused:
        with pytest.raises(NotSupported, match=kind):
            kit.add(kit.open(), "one")
        monkeypatch.setenv("JOBQ_ALLOW_NETWORK_FS", "1")
    kit.add(kit.open(), "one")


def test_a_handle_is_opened_anew_after_a_fork(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.jobs(store)
    pid = os.fork()
    if pid == 0:
        try:
            kit.add(store, "two")
            os._exit(0 if [job.id for job in kit.jobs(store)] == ["one", "two"] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    kit.add(store, "three")
    assert [job.id for job in kit.jobs(store)] == ["one", "two", "three"]


def test_a_manifest_is_told_from_one_of_the_same_size_and_time(kit):
    store, reader = kit.open(), kit.open()
    kit.add(store, "one")
    path = kit.queue / "queue.json"
    kit.compact(store)
    for generation in range(3, 9):
        assert reader.access.look().manifest.generation == generation - 1
        times = path.stat().st_mtime_ns
        kit.compact(store)
        os.utime(path, ns=(times, times))
        assert reader.access.look().manifest.generation == generation


def test_a_handle_writes_to_no_store_that_was_exchanged_for_another(kit):
    """It went on with the descriptors of the one before, where both had the same generation: what it acknowledged was
    in no store."""
    store = kit.open()
    kit.add(store, "one")
    shutil.copytree(kit.queue, kit.home / "backup")
    kit.add(store, "two")
    shutil.rmtree(kit.queue)
    (kit.home / "backup").rename(kit.queue)
    with pytest.raises(StoreUnreadable, match="removed or replaced"):
        kit.add(store, "three")
    assert [job.id for job in kit.jobs(store)] == ["one"]
    kit.add(store, "four")
    assert [job.id for job in kit.jobs(kit.open())] == ["one", "four"]


def test_a_handle_that_only_reads_shows_no_store_that_was_exchanged_for_another(kit):
    store, reader = kit.open(), kit.open()
    kit.add(store, "one")
    shutil.copytree(kit.queue, kit.home / "backup")
    kit.add(store, "two")
    assert [job.id for job in kit.jobs(reader)] == ["one", "two"]
    shutil.rmtree(kit.queue)
    (kit.home / "backup").rename(kit.queue)
    with pytest.raises(StoreUnreadable, match="removed or replaced"):
        kit.jobs(reader)
    assert [job.id for job in kit.jobs(reader)] == ["one"]


def test_a_lock_that_was_removed_is_not_held_beside_the_one_of_others(kit):
    store = kit.open()
    kit.add(store, "one")
    (kit.queue / "queue.lock").unlink()
    other = kit.open()
    with other.access.directory.held():
        locked = threading.Thread(target=kit.add, args=(store, "two"))
        locked.start()
        locked.join(0.2)
        assert locked.is_alive(), "it waits for the lock that stands there"
    locked.join(30)
    assert [job.id for job in kit.jobs(kit.open())] == ["one", "two"]


def test_zeros_where_the_first_generation_was_to_be_are_no_data(kit):
    """After loss of power a file system may have a file's size and not its content; the store asked to be repaired."""
    store = kit.open()
    kit.add(store, "one")
    store.close()
    (kit.queue / "queue.json").unlink()
    for name, header in (("jobs-1.jsonl", manifest.run_header(1)), ("journal-1.jsonl", manifest.journal_header(1, 1))):
        (kit.queue / name).write_bytes(bytes(len(header)))
    assert kit.jobs(kit.open()) == []
    kit.add(kit.open(), "one")
