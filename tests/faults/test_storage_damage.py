"""Files that were altered, cut, exchanged, closed or taken away: an error that says so, or every sound job; no more."""

import shutil
import signal
from contextlib import closing

import pytest

from jobq.errors import JobqError
from jobq.store import Query
from tests.integration.conftest import Cli

from .capabilities import POWERLESS, need
from .conftest import eventually
from .homes import add, furnish, opened
from .injecting import spread
from .sizes import rounds
from .stores import JSON, SQLITE
from .test_storage_space import Running

BLOCK = 512


def zeros(data, place):
    """Zeros in the place of a block, as a file system may leave them."""
    return data[:place] + bytes(len(data[place : place + BLOCK])) + data[place + BLOCK :]


def twice(data, place):
    """A block that is there twice."""
    return data[: place + BLOCK] + data[place:]


def exchanged(data, place):
    """Two blocks in each other's place."""
    first, second = data[place : place + BLOCK], data[place + BLOCK : place + 2 * BLOCK]
    return data[:place] + second + first + data[place + 2 * BLOCK :]


def cut(data, place):
    return data[:place]


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :]


HURTS = [zeros, twice, exchanged, cut, flipped]


@pytest.fixture
def furnished(tmp_path, new_cli, store):
    """A home with jobs in every file, and its command line."""
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"  # what is in the working directory is no reason to look for plugins anew
    store.choose(cli.home)
    furnish(cli.home)
    with store.killed(cli.home):
        cli("status")
    return cli


def damages(store, home, hurt, most):
    """Do up to so many damages to each file of a home, each to all as it was; the file and the place of each."""
    whole = home.with_name("whole")
    shutil.copytree(home, whole)
    for path in store.in_force(whole):
        data = path.read_bytes()
        for place in spread(max(1, len(data) - BLOCK), most):
            hurt_data = hurt(data, place - 1)
            if hurt_data != data:
                shutil.rmtree(home)
                shutil.copytree(whole, home)
                (home / path.relative_to(whole)).write_bytes(hurt_data)
                yield path, place - 1
    shutil.rmtree(home)
    whole.rename(home)


def shown(home):
    """What the store shows as sound, or None where it says that it cannot."""
    try:
        with opened(home) as store:
            return {job.id: (job.command, job.handler, job.payload, job.queue) for job in store.find(Query())}
    except (JobqError, AssertionError):
        return None


@pytest.mark.parametrize("hurt", HURTS[:3])
def test_no_altered_job_is_shown_as_sound(furnished, store, hurt, figure):
    """The last changes may be gone from the log, as after a power cut; else of a damage that hides a job a doctor tells."""
    home = furnished.home
    with store.killed(home):
        whole = shown(home)
    number = refused = 0
    for path, place in damages(store, home, hurt, rounds(short=25, full=2000, long=10**6)):
        found = shown(home)
        number += 1
        refused += found is None
        if found is not None:
            assert all(whole[job_id] == job for job_id, job in found.items()), (path, place)
            assert found, (path, place)
            assert found == whole or path.name.startswith(store.log) or told_by_a_doctor(store, home), (path, place)
    assert shown(home) == whole
    figure(f"F34 {hurt.__name__}", f"{number} damages by {hurt.__name__}: {refused} told, no altered job shown")


@pytest.mark.parametrize("store", [SQLITE], indirect=True, ids=[""])
def test_what_is_altered_in_a_database_is_told_but_for_words_of_one_record(furnished, store, figure):
    """SQLite keeps no checksums of what is in its file; what a record says is also in columns, or it is not checked."""
    home = furnished.home
    with store.killed(home):
        whole = records(store, home)
    number = altered = 0
    for path, place in damages(store, home, flipped, rounds(short=150, full=4000, long=10**6)):
        number += 1
        found = records(store, home)
        if path.name == store.log:
            assert found is None or all(whole[job_id] == job for job_id, job in found.items()), place
        elif found is not None and found != whole and not told_by_a_doctor(store, home):
            altered += 1
            (job_id,) = [job_id for job_id in whole if found.get(job_id) != whole[job_id]]
            same = ("state", "queue", "handler", "priority", "run_at", "worker", "rev")
            assert [getattr(found[job_id], name) for name in same] == [getattr(whole[job_id], name) for name in same]
    figure("F34 flipped", f"{number} bytes flipped: in {altered} of them other words in one record, the others told")


def records(store, home):
    """What is shown, all of it; None where that is refused."""
    with closing(store.open(home, lambda _: None)) as opened_store:
        try:
            return {job.id: job for job in opened_store.find(Query())}
        except JobqError:
            return None


def told_by_a_doctor(store, home):
    with closing(store.open(home, lambda _: None)) as opened_store:
        try:
            return opened_store.check() != []
        except JobqError:
            return True


COMMANDS = (
    ("doctor",),
    ("list",),
    ("add", "--", "true"),
    ("status",),
    ("why", "run-1"),
    ("cancel", "run-1"),
    ("show",),
)


@pytest.mark.parametrize("hurt", HURTS)
def test_no_command_meets_damage_without_a_sentence(furnished, store, hurt, figure):
    number = 0
    for path, place in damages(store, furnished.home, hurt, rounds(short=1, full=12, long=60)):
        for words in COMMANDS[: rounds(short=2, full=9, long=9)]:
            answer = furnished(*words, code=None)
            assert answer.code in (0, 2, 3, 4, 5), (path, place, words, answer)
            assert "Traceback" not in answer.stderr, (path, place, words, answer)
            assert answer.code == 0 or (answer.stdout + answer.stderr).strip(), (path, place, words, answer)
            number += 1
    figure(f"F34 commands, {hurt.__name__}", f"{number} commands on a damaged store: no traceback, none that hangs")


PLACES = {JSON: range(len('"command":"touch /')), SQLITE: (0, 8, 9, 10)}
"""What is flipped of that text: any of it, or where there are no checksums what makes it JSON."""


def test_a_worker_runs_nothing_of_a_damaged_record(furnished, store, figure):
    ran, number = furnished.directory / "ran", rounds(short=2, full=20, long=100)
    for turn in range(number):
        shutil.rmtree(furnished.home)
        store.choose(furnished.home)
        add(furnished.home, "damaged", command=f"touch {ran}")
        *_, path = (each for each in store.files(furnished.home) if b'"command"' in each.read_bytes())
        data = path.read_bytes()
        path.write_bytes(flipped(data, data.index(b'"command"') + PLACES[store][turn % len(PLACES[store])]))
        add(furnished.home, "sound", command="true", warned=True)
        answer = furnished.run_all()
        assert "damaged" in answer.stderr, answer
        assert furnished.state("sound") == "completed"
        assert not ran.exists()
    figure("F34 worker", f"{number} damaged records: told, not run; the sound job behind each was done")


def test_a_store_that_is_taken_away_is_not_made_anew_and_found_again(new_cli, tmp_path, store, figure):
    cli, elsewhere = new_cli(tmp_path / "cli"), tmp_path / "elsewhere"
    number = rounds(short=1, full=5, long=20)
    store.choose(cli.home)
    running = Running(cli, tmp_path, 2)
    for index in range(number):
        ids = running.begin()
        store.move(cli.home, elsewhere)
        running.end()
        eventually(lambda: running.troubles() > index)  # noqa: B023 - asked at once
        answer = cli("add", "--", "true", code=5)
        assert answer.out == b""
        assert store.files(cli.home) == []
        for path in store.moved(cli.home):
            shutil.rmtree(path)
        store.move(elsewhere, cli.home)
        running.recorded(ids)
    assert cli.stop(running.process) == 0
    figure(
        "F33",
        f"{number} times a store taken away from a worker: said, not made anew, outcomes recorded when it was back",
    )


class Powerless(Cli):
    """`jobq` of a root who may do no more to files than their modes say."""

    def command(self, *args):
        return [*POWERLESS, *super().command(*args)]


def test_a_directory_that_is_closed_for_a_while(tmp_path, figure):
    need("root", "capabilities")
    cli = Powerless(tmp_path)
    try:
        running = Running(cli, tmp_path, 3)
        number = rounds(short=1, full=5, long=20)
        for index in range(number):
            ids = running.begin()
            (cli.home / "queue").chmod(0)
            running.end()
            eventually(lambda: running.troubles() > index)  # noqa: B023 - asked at once
            answer = cli("add", "--", "true", code=5)
            assert "Permission denied" in answer.stderr
            (cli.home / "queue").chmod(0o700)
            running.recorded(ids)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
        figure("F32", f"{number} times a store that nobody may read: said, and all recorded after")
    finally:
        cli.close()
