"""Files that were altered, cut, exchanged, closed or taken away: an error that says so, or every sound job; no more."""

import shutil
import signal

import pytest

from jobq.errors import JobqError
from jobq.store import Query
from tests.integration.conftest import Cli

from .capabilities import POWERLESS, need
from .conftest import eventually
from .homes import add, furnish, opened
from .injecting import spread
from .sizes import rounds
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
def furnished(tmp_path, new_cli):
    """A home with jobs in every file, and its command line."""
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"  # what is in the working directory is no reason to look for plugins anew
    furnish(cli.home)
    cli("status")
    return cli


def shown(home):
    """What the store shows as sound, or None where it says that it cannot."""
    try:
        with opened(home) as store:
            return {job.id: (job.command, job.handler, job.payload, job.queue) for job in store.find(Query())}
    except (JobqError, AssertionError):
        return None


@pytest.mark.parametrize("hurt", HURTS[:3])
def test_no_altered_job_is_shown_as_sound(furnished, hurt, figure):
    home = furnished.home
    whole = shown(home)
    number = refused = 0
    for path in sorted((home / "queue").glob("*.json*")):
        data = path.read_bytes()
        for place in spread(max(1, len(data) - BLOCK), rounds(short=25, full=10**6, long=10**6)):
            hurt_data = hurt(data, place - 1)
            if hurt_data == data:
                continue
            path.write_bytes(hurt_data)
            found = shown(home)
            number += 1
            refused += found is None
            if found is not None and path.name.startswith("journal"):
                assert all(whole[job_id] == job for job_id, job in found.items()), (
                    place
                )  # the last records may be gone, as after a power cut
            elif found is not None:
                assert found == whole, (path, place)
        path.write_bytes(data)
    assert shown(home) == whole
    figure(f"F34 {hurt.__name__}", f"{number} damages by {hurt.__name__}: {refused} told, no altered job shown")


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
def test_no_command_meets_damage_without_a_sentence(furnished, tmp_path, hurt, figure):
    home, whole, number = furnished.home, tmp_path / "whole", 0
    shutil.copytree(home, whole)
    for path in sorted((home / "queue").glob("*.json*")):
        data = path.read_bytes()
        for place in spread(max(1, len(data) - BLOCK), rounds(short=1, full=12, long=60)):
            shutil.rmtree(home)
            shutil.copytree(whole, home)
            path.write_bytes(hurt(data, place - 1))
            for words in COMMANDS[: rounds(short=2, full=9, long=9)]:
                answer = furnished(*words, code=None)
                assert answer.code in (0, 2, 3, 4, 5), (words, answer)
                assert "Traceback" not in answer.stderr, (words, answer)
                assert answer.code == 0 or (answer.stdout + answer.stderr).strip(), (words, answer)
                number += 1
    figure(f"F34 commands, {hurt.__name__}", f"{number} commands on a damaged store: no traceback, none that hangs")


def test_a_worker_runs_nothing_of_a_damaged_record(furnished, figure):
    ran, number = furnished.directory / "ran", rounds(short=2, full=20, long=100)
    for place in range(number):
        shutil.rmtree(furnished.home / "queue")
        (furnished.home / "queue.made").unlink(missing_ok=True)
        add(furnished.home, "damaged", command=f"touch {ran}")
        (path,) = (furnished.home / "queue").glob("journal-*")
        data = path.read_bytes()
        at = data.index(b'"command"') + place % len(b'"command":"touch /')
        path.write_bytes(flipped(data, at))
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
