"""Other users of the machine: what they may have put into a home, what they can see of it, and whose home it is."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.integration.conftest import eventually

from .capabilities import AS_NOBODY, NOBODY, need
from .injecting import spread
from .sizes import rounds

EVERY = 10**6


@pytest.fixture(scope="module")
def used(tmp_path_factory, new_cli):
    """The path of a home in which all has been made that jobq makes, down to what a killed worker left."""
    cli = new_cli(tmp_path_factory.mktemp("used"))
    cli("config", "set", "output-limit", "4096")
    cli("add", "--id", "long", "--shell", "head -c 10000 /dev/zero")
    cli("add", "--id", "dead", "--max-attempts", "1", "--", "false")
    cli("worker", "start", "--until-empty")
    cli("add", "--id", "running", "--shell", "test $JOBQ_RUN != 1 || sleep 300")
    cli("worker", "start", "--detach")
    eventually(lambda: cli.state("running") == "processing")
    (worker,) = cli("worker", "list", "--json").json
    os.kill(worker["pid"], signal.SIGKILL)
    kept = cli.directory / "kept"
    shutil.copytree(cli.home, kept)
    cli("cancel", "running")
    return kept


def places(home):
    """Everything in a home but what another command makes under a name of its own."""
    return sorted(path.relative_to(home) for path in home.rglob("*"))


def spread_of(values, most):
    return [values[number - 1] for number in spread(len(values), most)]


def victim_of(directory):
    """What an attacker would like to have changed: a file, and a directory with one."""
    victim = directory / "victim"
    shutil.rmtree(victim, ignore_errors=True)
    (victim / "inside").mkdir(parents=True)
    (victim / "file").write_bytes(b"precious")
    (victim / "file").chmod(0o644)
    return victim


def seen(victim):
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_uid, path.read_bytes() if path.is_file() else None)
        for path in (victim, *victim.rglob("*"))
    }


def plant_link(path, victim, was_directory):
    path.symlink_to(victim / ("inside" if was_directory else "file"))


def plant_fifo(path, victim, was_directory):
    os.mkfifo(path, 0o600)


def plant_the_other_kind(path, victim, was_directory):
    path.touch(0o600) if was_directory else path.mkdir(0o700)


def plant_hard_link(path, victim, was_directory):
    """To a file of another user, as it could be made by who may write to the directory."""
    os.chown(victim / "file", NOBODY, NOBODY)
    (path.mkdir if was_directory else lambda: os.link(victim / "file", path))()
    if was_directory:
        os.chown(path, NOBODY, NOBODY)


PLANTS = [plant_link, plant_fifo, plant_the_other_kind, plant_hard_link]


@pytest.mark.parametrize("plant", PLANTS)
def test_what_was_planted_in_the_place_of_any_file_is_not_followed_and_holds_nothing_up(jobq, used, plant, figure):
    if plant is plant_hard_link:
        need("root")
    victim = victim_of(jobq.directory)
    names, turn = places(used), 3 * PLANTS.index(plant)
    names = names[turn:] + names[:turn]
    written = Path("queue", "bell")  # in place, while others are replaced
    names.remove(written)
    chosen = [written, *spread_of(names, rounds(short=1, full=EVERY, long=EVERY))]
    for name in chosen:
        shutil.rmtree(jobq.home, ignore_errors=True)
        shutil.copytree(used, jobq.home)
        path = jobq.home / name
        was_directory = path.is_dir()
        shutil.rmtree(path) if was_directory else path.unlink()
        plant(path, victim, was_directory)
        before = seen(victim)
        work(jobq)
        for words in (("cancel", "running"), ("logs", "long"), ("doctor", "--repair")):
            answer = jobq(*words, code=None)
            assert "Traceback" not in answer.stderr, (name, words)
            assert answer.code in (0, 1, 3, 4, 5), (name, words, answer.stderr)
        assert answer.code != 0 or not is_planted(path), name
        assert seen(victim) == before, name
    figure(
        f"T1 {plant.__name__}", f"{len(chosen)} of {len(names) + 1} files and directories, victim unchanged, no hang"
    )


def work(jobq):
    """Let a worker look at everything, and stop it: one that cannot use its store tries again until then."""
    log = jobq.directory / "log"
    with log.open("wb") as file:
        worker = jobq.start("worker", "start", "--until-idle", stderr=file, stdout=file)
    eventually(lambda: worker.poll() is not None or b"trying again" in log.read_bytes())
    worker.terminate()
    assert worker.wait(30) in (0, 1, 5, 143, -signal.SIGTERM), log.read_text()
    assert "Traceback" not in log.read_text()


def is_planted(path):
    """Whether it is still there; a file that jobq replaced as a whole is its own again."""
    if not os.path.lexists(path):
        return False
    facts = path.lstat()
    return path.is_symlink() or path.is_fifo() or facts.st_uid == NOBODY


def test_nothing_is_open_to_others_even_for_a_moment_whatever_the_umask(jobq):
    """Files and directories are made with the mode that they keep: there is no time at which to open them."""
    need("strace")
    jobq("add", "--shell", "head -c 100 /dev/zero")
    trace = jobq.directory / "trace"
    command = ["strace", "-f", "-qq", "-y", "-e", "trace=open,openat,creat,mkdir,mkdirat", "-o", str(trace)]
    for words in (("config", "set", "output-limit", "4096"), ("worker", "start", "--until-idle")):
        done = subprocess.run(
            [*command, *jobq.command(*words)],
            check=False,
            capture_output=True,
            env=jobq.environ,
            cwd=jobq.directory,
            stdin=subprocess.DEVNULL,
            umask=0,
        )
        assert done.returncode == 0, done.stderr
    made = [
        line
        for line in trace.read_text().splitlines()
        if str(jobq.home) in line and ("O_CREAT" in line or "mkdir" in line) and "__pycache__" not in line
    ]
    assert len(made) > 5
    for line in made:
        mode = re.search(r", (0[0-7]+)(\)| <unfinished)", line)
        assert mode is not None, line
        assert int(mode[1], 8) & 0o077 == 0, line


def test_another_user_sees_nothing_of_a_home(used):
    need("root", "other users")
    base = Path(tempfile.mkdtemp())  # pytest's own is closed to others
    try:
        base.chmod(0o755)
        shutil.copytree(used, base / "home")
        files = [str(path) for path in (base / "home").rglob("*") if path.is_file()]
        for words in (["ls", str(base / "home")], ["cat", *files]):
            done = subprocess.run([*AS_NOBODY, *words], check=False, capture_output=True, text=True)
            assert done.returncode != 0
            assert done.stdout == ""
            assert "Permission denied" in done.stderr
        for path in files:
            assert os.lstat(path).st_mode & 0o077 == 0, path
    finally:
        shutil.rmtree(base)


def test_root_works_in_nobody_elses_home(jobq, used):
    """A worker of root would run the commands of whoever may write there."""
    need("root")
    shutil.copytree(used, jobq.home)
    marker = jobq.directory / "ran"
    jobq("add", "--", "touch", str(marker))
    for path in (jobq.home, *jobq.home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    for words in (
        ("worker", "start", "--until-idle"),
        ("add", "--", "true"),
        ("list",),
        ("config", "set", "timeout", "1"),
        ("doctor", "--repair"),
        ("cancel", "running"),
    ):
        answer = jobq(*words, code=5)
        assert f"belongs to user {NOBODY}" in answer.stderr + answer.stdout, words
    assert not marker.exists()
    assert {path.lstat().st_uid for path in jobq.home.rglob("*")} == {NOBODY}


UNLIKE_OURS = ["a..b", "A.jsonl", "x" * 128, "a:@-._"]
ODD_IDS = [*UNLIKE_OURS, "0", "queue.lock", "con", "token", "1.ring"]
REFUSED_IDS = [
    *("../x", "../../../../../tmp/x", "/etc/passwd", ".", "..", ".x", "-x", "a/b", "a\\b", "a\0b", "a\nb", "a b"),
    *("x" * 129, "x" * 300, "\u202ex", "a\u200b", "\uff41", "%2e%2e", "a%2f", "~", "$HOME", "*", ""),
]


def test_no_file_is_called_by_an_id_or_a_queue(jobq):
    """Whatever an id looks like, output and all else lies below the home under names that jobq chose."""
    outside = sorted(path for path in jobq.directory.rglob("*"))
    specs = [{"id": each, "queue": each[:64], "command": f"echo {each}"} for each in ODD_IDS]
    jobq("enqueue", "-", input="".join(json.dumps(spec) + "\n" for spec in specs))
    jobq.run_all()
    for each in spread_of(ODD_IDS, rounds(short=3, full=EVERY, long=EVERY)):
        assert jobq("logs", each).stdout == f"{each}\n"
    names = [path.name for path in jobq.home.rglob("*")]
    assert [name for name in names for each in UNLIKE_OURS if each in name] == []
    for each in spread_of(REFUSED_IDS, rounds(short=3, full=EVERY, long=EVERY)):
        for field in ("id", "queue"):
            refused = jobq("enqueue", "-", input=json.dumps({field: each, "command": "touch ran"}), code=1)
            assert f"{field}: " in refused.stderr, each
    assert sorted(path for path in jobq.directory.rglob("*") if jobq.home not in (path, *path.parents)) == outside
    assert jobq("status", "--json").json["counts"]["completed"] == len(ODD_IDS)
