"""The wall clock is set while jobs run (F49): nobody takes them, no time of theirs is counted by that clock, and what is
due later comes when the clock says so, but no later."""

import re
import signal
import time
from datetime import timedelta

import pytest

from jobq.store import Query

from .capabilities import need
from .gates import LONG_ENOUGH, Gate, add, begun, bench_in, client, offer_handler
from .scene import RECOVER, eventually, ills, scene_in
from .sizes import rounds
from .stepping import Clocks

HOUR, YEAR = 3600, 365 * 86400

STEPS = {
    "an hour back": lambda: -HOUR,
    "an hour on": lambda: HOUR,
    "ten years on": lambda: 10 * YEAR,
    "back to 1970": lambda: HOUR - time.time(),
}

LATER = timedelta(minutes=30)
"""After which a job is due that waits when the clock is set."""

SETTINGS = {"kill-grace": "600", "backoff-initial": "0.1", "poll-interval": "0.2"}


@pytest.fixture
def clocks(tmp_path):
    need("proc", "compiler")
    return Clocks(tmp_path / "clocks")


def fails_once(spec):
    """The same command, whose first attempt fails at its end."""
    return spec | {"command": ["sh", "-c", '"$@"; test "$JOBQ_ATTEMPT" -gt 1', "sh", *spec["command"]]}


TAKES_ITS_GRACE = """
trap 'trap "" TERM; touch "$1.told"; flock -s "$0" true; shift; "$@"; exit 0' TERM
touch "$1.ready"
sleep 1000 & wait
"""
"""A job that ends well when it is told to, as soon as it is let; what it is up to it notes in files."""


LOOKS = (
    ["list"],
    ["status"],
    ["why", "RUNNING"],
    ["why", "LATER"],
    ["show", "RUNNING"],
    ["show", "LATER"],
    ["worker", "list"],
    ["list", "--state", "completed"],
)
"""Commands that tell people of times."""


def look(bench, number, name, running, later):
    """That nothing which is told is absurd, and that doctor names a clock that was set back."""
    words = {"RUNNING": running, "LATER": later}
    for each in [LOOKS[(number + offset) % len(LOOKS)] for offset in range(rounds(short=number % 2, full=3, long=3))]:
        answer = bench.scene.jobq(*(words.get(word, word) for word in each))
        assert not re.search(r"(?<![\w.:/-])-\d", answer.stdout + answer.stderr), answer
    checks = {check["name"]: check for check in bench.scene.jobq("doctor", "--json", code=None).json["checks"]}
    ill = {check["name"] for check in ills(checks.values())}
    assert ill == ({"clock"} if "back" in name else set()), checks
    if "back" in name:
        assert "the clock was set back" in str(checks["clock"])
        assert ("it has not been set" in str(checks["clock"])) == ("1970" in name)


def test_the_clock_is_set_in_flight(tmp_path, clocks, figure):
    total = rounds(short=1, full=10, long=50)
    with bench_in(tmp_path / "scene", clocks, **SETTINGS) as bench:
        scene, queue = bench.scene, bench.queue
        order = list(STEPS) * total
        scene.chance.shuffle(order)
        for number, name in enumerate(order):
            gate = Gate(scene, f"{number}")
            note = scene.jobq.directory / f"graced-{number}"
            grace = {"command": ["sh", "-c", TAKES_ITS_GRACE, str(gate.path), str(note), *scene.command("quick")]}
            graced, failing = add(queue, grace, fails_once(gate.command(timeout=600)))
            ids = bench.give(gate.command(timeout=600), gate.handler(timeout=600))
            (later,) = add(queue, {"command": scene.command("quick"), "delay": LATER})
            begun(scene, [failing])
            eventually(note.with_suffix(".ready").exists)
            queue.cancel(graced)
            eventually(note.with_suffix(".told").exists)
            (timed,) = add(queue, {"command": scene.command("long"), "timeout": 0.4, "max_attempts": 1})
            eventually(lambda: queue.get(timed).state != "pending")  # noqa: B023
            scene.pause(0.0, 0.2)
            before = time.monotonic()
            clocks.set(wall=STEPS[name]())
            fresh = scene.start_worker(*RECOVER)
            soon = add(queue, {"command": scene.command("quick"), "delay": 0.2}, {"command": scene.command("fail")})
            bench.work_beside()
            queue.wait([*soon, timed], timeout=LONG_ENOUGH)
            assert fresh.wait(LONG_ENOUGH) == 0, scene.errors()
            assert bench.are_running(ids)
            look(bench, number, name, ids[0], later)
            gate.open()
            queue.wait([*ids, failing, graced], timeout=LONG_ENOUGH)
            if "back" in name:
                assert queue.get(later).state == "pending"
                clocks.set(wall=time.monotonic() - before + LATER.total_seconds())
            queue.wait([later], timeout=LONG_ENOUGH)
            clocks.set()
            jobs = queue.get_many([graced, failing, timed, later, *soon])
            outcomes = {job_id: [run.outcome for run in job.history] for job_id, job in jobs.items()}
            assert outcomes[graced] == ["completed"], (name, "it was killed within its grace")
            assert outcomes[timed] == ["timeout"], (name, outcomes)
            assert outcomes[failing] == outcomes[soon[1]] == ["failed", "completed"], (name, outcomes)
            assert outcomes[later] == outcomes[soon[0]] == ["completed"], (name, outcomes)
        found = bench.finish()
    figure(
        "F49 steps of the clock",
        f"{total} of each of {len(STEPS)}, and back; 0 of {2 * len(order)} jobs taken, 0 timed out, 0 delays frozen, "
        f"{found} jobs in all",
    )


def test_a_clock_that_was_set_prunes_what_has_ended_alone(tmp_path, clocks, figure):
    """What has ended is old for a clock that is ten years on; what has not is never old."""
    with scene_in(tmp_path / "scene", seed=0, **{"backoff-initial": "60"}) as scene, client(scene, clocks) as queue:
        offer_handler(scene)
        scene.jobq.environ |= clocks.environ
        gate = Gate(scene, "0")
        worker = scene.start_worker("--quiet", "-n", "4")
        running = add(queue, gate.command(), gate.handler())
        completed = add(queue, {"command": ["echo", "something"]}, {"command": ["echo", "something else"]})
        waiting = add(queue, {"command": scene.command("quick"), "delay": LATER}, {"command": scene.command("fail")})
        (dead,) = add(queue, {"command": ["false"], "max_attempts": 1})
        (cancelled,) = add(queue, {"command": ["true"], "delay": LATER})
        queue.cancel(cancelled)
        begun(scene, running)
        queue.wait([*completed, dead], timeout=LONG_ENOUGH)
        eventually(lambda: queue.get(waiting[1]).state == "failed")
        everything = {job.id: job.state for job in queue.find(Query())}
        queue.pause("default")
        for name, step in STEPS.items():
            clocks.set(wall=step())
            assert scene.start_worker(*RECOVER).wait(LONG_ENOUGH) == 0, scene.errors()
            kept = {job.id: job.state for job in queue.find(Query())}
            gone = {*completed, cancelled} if name == "ten years on" else set()
            everything = {job_id: state for job_id, state in everything.items() if job_id not in gone}
            assert kept == everything, name
            assert len(outputs(scene)) == sum(job_id in everything for job_id in completed), name
        clocks.set()
        queue.resume("default")
        gate.open()
        queue.wait(running, timeout=LONG_ENOUGH)
        assert scene.jobq.stop(worker) == 0
    figure(
        "F49 pruning by a clock that was set",
        f"{len(STEPS)} steps; ended jobs alone, by the clock that is ten years on",
    )


def outputs(scene):
    """The files that hold what jobs have written."""
    return [path for path in (scene.jobq.home / "output").glob("*/*") if path.is_file()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_what_is_given_back_after_the_clock_was_set_back_is_due_at_once(tmp_path, clocks, number):
    """It was due when it began, and is no later for that."""
    with scene_in(tmp_path / "scene", seed=0) as scene, client(scene, clocks) as queue:
        offer_handler(scene)
        scene.jobq.environ |= clocks.environ
        gate = Gate(scene, "0")
        worker = scene.start_worker("-n", "2")
        ids = add(queue, gate.command(), gate.handler())
        begun(scene, ids)
        clocks.set(wall=-HOUR)
        if number == signal.SIGKILL:
            scene.kill(worker)
        else:
            assert scene.jobq.stop(worker, number) == 143
        gate.open()
        last = scene.start_worker("-n", "2")
        queue.wait(ids, timeout=20)
        assert scene.jobq.stop(last) == 0
        assert "snoozed" not in scene.errors()
        clocks.set()
        scene.drain()
