"""Output without measure (F53) and of every kind (F54), streams that are closed early or held too long (F55), and jobs
that read (F56): what is kept is what was printed, the worker stays small, and its other jobs go on."""

import random
import re
import subprocess

from tests.integration.terminals import Terminal

from .capabilities import need
from .namespaces import CliOnDisk, Mounts
from .sizes import rounds
from .stores import JSON
from .watched import MOST_MEMORY, Watched, attempts, over, unruly

LIMIT = 10 << 20
"""What is kept of an attempt's output where nobody has set anything else."""

FIRST = 10**11
"""The first of the numbers that are printed, all of the same length."""
LINE = 13
PART = 1_000_000
"""So many numbers are more than what is kept of an end."""

LEFT_OUT = re.compile(rb"\n\[jobq: (\d+) bytes left out\]\n")


def seq(count, begin=0):
    """The line of a shell that prints so many numbers."""
    return f"seq {FIRST + begin} {FIRST + count - 1}"


def numbers(count, begin=0):
    """What it prints."""
    return subprocess.run(seq(count, begin).split(), check=True, capture_output=True).stdout


def test_a_flood_is_kept_at_both_ends_and_costs_no_other(jobq, tmp_path, figure):
    size = rounds(short=200, full=2_000, long=10_000) << 20
    count = size // 2 // LINE
    go = tmp_path / "go"
    script = f"{seq(count)}; until [ -e {go} ]; do {seq(PART)}; done; {seq(PART)}"
    watched = Watched(jobq)
    floods = watched.add({"command": script}, unruly("shell", script))
    others = watched.add(*({"command": "echo quick"}, unruly("shell", "echo quick")) * 10)
    watched.start("-n", "3")
    assert {job.state for job in watched.ended(others)} == {"completed"}
    assert {watched.jobs()[job_id].state for job_id in floods} == {"processing"}, "the others waited for the floods"
    go.touch()
    assert {job.state for job in watched.ended(floods)} == {"completed"}
    peak = watched.peak()
    watched.stop()
    assert peak < MOST_MEMORY
    for job_id in floods:
        head, left_out, tail = LEFT_OUT.split(jobq("logs", "--raw", job_id).out)
        assert head == numbers(LIMIT // 2 // LINE + 1)[: LIMIT // 2]
        assert tail == numbers(PART)[-LIMIT // 2 :]
        assert (int(left_out) + LIMIT - count * LINE) % (PART * LINE) == 0, "more or less was left out"
    figure("F53 floods", f"{size >> 20} MiB and more, worker at most {peak >> 20} MiB, 20 neighbours completed")


def test_a_flood_on_a_disk_that_is_nearly_full_takes_no_room_from_the_queue(tmp_path, figure):
    need("root", "mounts")
    mounts = Mounts()
    cli = CliOnDisk(tmp_path / "cli", mounts, JSON)
    try:
        cli.mount("tmpfs", "size=12m")
        watched = Watched(cli, seen=cli.seen_home)
        count = (rounds(short=20, full=500, long=5_000) << 20) // LINE
        pairs = rounds(short=1, full=2, long=2)
        floods = watched.add(*[{"command": f"{seq(count)}; exit 3"}, unruly("shell", seq(count))] * pairs)
        others = watched.add(*({"command": "true"}, {"command": "echo quick"}) * 5)
        watched.start("-n", "6", prefix=mounts.prefix)
        assert {job.state for job in watched.ended(others)} == {"completed"}
        jobs = watched.ended(floods)
        peak = watched.peak()
        watched.stop()
        assert "store trouble" not in watched.told()
        assert peak < MOST_MEMORY
        for job, state in zip(jobs, ("dead", "completed") * pairs, strict=True):
            (run,) = attempts(job)
            assert (job.state, run.output_error) == (state, "the disk is nearly full")
            kept = cli("logs", "--raw", job.id)
            assert numbers(PART).startswith(LEFT_OUT.split(kept.out)[0])
            assert "the disk is nearly full" in kept.stderr
            if state == "dead":
                reason, _, tail = job.last_error.partition("\n")
                assert reason == "exit code 3"
                assert numbers(count, count - 200).strip().endswith(tail.encode())
                assert len(tail) > 1000
    finally:
        cli.close()
        mounts.close()
    figure(
        "F53 on a disk that is nearly full",
        f"{len(jobs)} floods and 10 neighbours recorded, worker at most {peak >> 20} MiB",
    )


def kinds(chance, size):
    """Output of many kinds, of about so many bytes, by name."""
    return {
        "every byte": bytes(range(256)) * (size // 256),
        "no text": chance.randbytes(size),
        "no newline": b"x" * size,
        "half characters": "\N{SNOWMAN}".encode() * (size // 3) + b"\xe2\x98",
        "newlines": b"\r\n\n" * (size // 3),
        "what steers terminals": b"\x1b]0;title\x07\x9b2J\x1b[?1049h\x1bc\x0e\x7f" * (size // 24),
    }


def test_every_byte_comes_back_and_none_steers_a_terminal(jobq, tmp_path, figure):
    size = rounds(short=1 << 17, full=1 << 22, long=1 << 23)
    slow = rounds(short=200, full=20_000, long=200_000)
    watched = Watched(jobq)
    specs, wanted = [], []
    for number, (name, data) in enumerate(kinds(random.Random(0), size).items()):
        path, few = tmp_path / f"{number}", tmp_path / f"{number}-few"
        path.write_bytes(data)
        few.write_bytes(data[:slow])
        specs += [
            {"command": ["cat", str(path)]},
            unruly("prints", str(path), 4093),
            {"command": ["dd", f"if={few}", "bs=1", "status=none"]},
            unruly("prints", str(few), 1),
        ]
        wanted += [(name, data)] * 2 + [(name, data[:slow])] * 2
    long = rounds(short=24, full=1_000, long=4_000) << 20
    *ids, line = watched.add(*specs, {"command": f"head -c {long} /dev/zero | tr '\\0' x; exit 3"})
    watched.start("-n", "4")
    jobs = watched.ended(ids)
    assert {job.state for job in jobs} == {"completed"}
    (job,) = watched.ended([line])
    assert job.last_error == "exit code 3\n" + 2048 * "x"
    assert watched.peak() < MOST_MEMORY
    watched.stop()
    half = b"x" * (LIMIT // 2)
    assert jobq("logs", line).out == half + b"\n[jobq: %d bytes left out]\n" % (long - LIMIT) + half
    for job, (name, data) in zip(jobs, wanted, strict=True):
        assert watched.printed(job) == data, name
    for job_id, (name, data) in [*zip(ids, wanted, strict=True)][:: rounds(short=17, full=1, long=1)]:
        assert jobq("logs", "--raw", job_id).out == data, name
    steering = [job_id for job_id, (name, data) in zip(ids, wanted, strict=True) if name in ("every byte", "no text")]
    for job_id in steering[2 : rounds(short=3, full=99, long=99)]:
        terminal = Terminal(jobq.command("logs", "--quiet", job_id), env=jobq.environ, cwd=tmp_path)
        try:
            assert terminal.end() == 0
            assert not re.search(rb"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]", terminal.written)
            assert len(terminal.written) > slow
        finally:
            terminal.close()
    figure("F54 output of all kinds", f"{len(ids)} jobs, up to {size >> 10} KiB, also byte by byte: 0 bytes changed")


HOLDS = {
    "in the background": "sleep 1000 & echo $! >PIDS; exit 3",
    "in a session of its own": "setsid sleep 1000 & echo $! >PIDS; exit 3",
    "deaf": "(trap '' TERM HUP; exec sleep 1000) & echo $! >PIDS; exit 3",
    "talking": "(while :; do echo noise; sleep 0.01; done) & echo $! >PIDS; exit 3",
    "closed": "exec >&- 2>&-; sleep 0.05; echo $$ >PIDS; exit 3",
    "half closed": "exec >&-; echo $$ >PIDS; sleep 0.05; echo said >&2; exit 3",
}
"""Scripts that close their output, or have it held when they end."""


def test_who_closes_its_output_or_has_it_held_ends_in_its_time(jobq, tmp_path, figure):
    turns = rounds(short=1, full=20, long=100)
    watched = Watched(jobq)
    holding, following, pids = [], [], []
    for turn in range(turns):
        for name, line in HOLDS.items():
            for handler in (False, True):
                pids.append(tmp_path / f"{turn}-{name}-{handler}".replace(" ", "-"))
                script = f"echo first; {line.replace('PIDS', str(pids[-1]))}"
                holding.append(unruly("leaves", script) if handler else {"command": script})
                following.append(unruly("shell", "echo mine; sleep 0.05"))
    ids = watched.add(*(spec for pair in zip(holding, following, strict=True) for spec in pair))
    watched.start("-n", "2")
    jobs = watched.ended(ids)
    watched.stop()
    for spec, job, path in zip(holding, jobs[::2], pids, strict=True):
        assert (job.state, job.exit_code) == (("completed", None) if "handler" in spec else ("dead", 3)), job
        if path.exists():  # what a handler leaves may be ended before it has done anything
            assert over(int(path.read_text())), spec
        printed = watched.printed(job)
        if "command" in spec:
            words = {b"first", b"said" if "said" in spec["command"] else b"first"}
            assert set(printed.split()) - {b"noise"} == words, spec
    for job in jobs[1::2]:
        assert job.state == "completed"
        assert watched.printed(job) == b"mine\n", "it has the output of another job"
    figure("F55 output closed or held", f"{len(holding)} jobs: each with its own outcome, 0 processes left")


def test_who_reads_finds_the_end(jobq, figure):
    """Also where the worker itself has something to read."""
    watched = Watched(jobq)
    number = rounds(short=2, full=50, long=500)
    command = "cat; head -c 1; read line || echo the end; dd status=none; cat /dev/fd/0; test ! -t 0"
    ids = watched.add(*({"command": command}, unruly("reads")) * number)
    worker = watched.start("-n", "2", stdin=subprocess.PIPE)
    worker.stdin.write(b"not for jobs\n" * 1000)
    worker.stdin.flush()
    jobs = watched.ended(ids)
    watched.stop()
    for job in jobs:
        assert job.state == "completed", job
        if job.handler:
            assert job.result == ["", "", None]
        else:
            assert watched.printed(job) == b"the end\n"
    figure("F56 jobs that read", f"{len(ids)} found the end of the file at once")
