"""What people watch: `status --watch`, bars and progress; on real terminals, and that nothing is drawn elsewhere."""

import json
import os
import re
import select
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobq.app import App
from jobq.clock import SystemClock
from jobq.executor import Kind, Outcome
from jobq.lifecycle import after
from jobq.members import RunningJob
from jobq.output import Capture
from jobq.store import Ended, Wanted
from jobq.testing import make_info

from .terminals import CTRL_C, CTRL_D, CTRL_Z, Terminal, screen_of

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
NOTHING = Wanted(queues=None, handlers=frozenset())


class Member:
    """A worker that only says what it does: it holds its locks in this process, and runs nothing."""

    def __init__(self, jobq, **fields):
        self.home = jobq.home
        self.app = App(home=str(jobq.home), environ={}, warn=pytest.fail)
        self.app.create_home()
        self.clock = SystemClock()
        self.info = make_info(name="fake", pid=os.getpid(), started=self.clock.now(), **fields)
        self.presence = self.app.store.join(self.info)
        self.running = {}

    def take(self):
        """Claim the next job and say that it runs."""
        (claim,) = self.app.store.claim(self.presence, wanted=NOTHING, limit=1, now=self.clock.now()).claims
        started = self.clock.now()
        self.running[claim.job.id] = claim, RunningJob(job=claim.job.id, run=claim.run, started=started, what="work")
        self._report()
        return claim.job.id

    def progress(self, job_id, done, total=None, note=""):
        claim, told = self.running[job_id]
        self.running[job_id] = claim, replace(told, progress={"done": done, "total": total, "note": note})
        self._report()

    def output(self, job_id):
        claim, _ = self.running[job_id]
        return Capture(self.home, job_id, claim.run, 1 << 20)

    def end(self, job_id, code=0):
        claim, _ = self.running.pop(job_id)
        kind = Kind.FAILURE if code else Kind.SUCCESS
        outcome = Outcome(kind=kind, exit_code=code, reason=f"exit code {code}" if code else None)
        change = after(claim, outcome, now=self.clock.now(), delay=lambda *args: None)
        ended = [Ended(claim, change)]
        self.app.store.claim(self.presence, wanted=NOTHING, limit=0, now=self.clock.now(), ended=ended)
        self._report()

    def _report(self):
        self.app.store.report(
            self.presence, replace(self.info, running=tuple(told for _, told in self.running.values()))
        )

    def close(self):
        self.presence.close()
        self.app.close()


@pytest.fixture
def member(jobq):
    made = Member(jobq, count=5)
    yield made
    made.close()


@pytest.fixture
def terminal(jobq):
    """Starts a jobq command on a terminal."""
    made = []

    def start(*args, env=None, **options):
        environ = {**jobq.environ, **(env or {})}
        made.append(Terminal(jobq.command(*args), env=environ, cwd=jobq.directory, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


# --- status --watch


def test_watch_shows_counts_rates_and_what_runs_and_for_how_long(jobq, member, terminal):
    jobq.add("--id", "long", shell="true")
    jobq.add("--id", "short", shell="true")
    member.take()
    member.progress("long", 3, 10, "resizing")
    watching = terminal("status", "--watch", env={"NO_COLOR": "1"})
    seen = watching.until(rb"active workers 1")
    seen = watching.until(rb"worker fake \(pid \d+\): 1 of 5 busy", after=seen)
    seen = watching.until(rb"long  \d+ s  work  3/10 \(30%\) resizing", after=seen)
    member.take()
    member.progress("long", 4, 10, "resizing")
    seen = watching.until(rb"pending      0\x1b", after=seen)
    seen = watching.until(rb"4/10 \(40%\) resizing", after=seen)
    member.end("short")
    seen = watching.until(rb"completed    1\x1b", after=seen)
    watching.until(rb"finished 0\.[1-9] a second", after=seen)
    watching.type(b"q")
    assert watching.end() == 0


def test_watch_is_drawn_again_about_once_a_second_without_a_change(jobq, terminal):
    watching = terminal("status", "--watch")
    first = watching.until(rb"\x1b\[H")
    begun = time.monotonic()
    second = watching.until(rb"\x1b\[H", after=first)
    watching.until(rb"\x1b\[H", after=second)
    assert 1.5 < time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda watching: watching.type(b"q"), 0),
        (lambda watching: watching.type(CTRL_D), 0),
        (lambda watching: watching.type(CTRL_C), 130),
        (lambda watching: watching.send(signal.SIGTERM), 143),
        (lambda watching: watching.send(signal.SIGHUP), 129),
    ],
    ids=["q", "ctrl-d", "ctrl-c", "term", "hup"],
)
def test_watch_puts_the_terminal_back_however_it_ends(jobq, terminal, end, code):
    jobq.add(shell="true")
    watching = terminal("status", "--watch")
    watching.until(rb"active workers 0")
    assert watching.settings_now() != watching.settings, "keys are taken as they are typed"
    end(watching)
    assert watching.end() == code
    assert watching.settings_now() == watching.settings
    written = watching.written
    assert (written.count(ENTER), written.count(LEAVE)) == (1, 1)
    assert written.index(ENTER) < written.index(b"active workers") < written.index(LEAVE)
    assert b"\x1b[H" not in written[written.index(LEAVE) :]
    assert written.index(b"\x1b[?25l") < written.rindex(b"\x1b[?25h")
    assert b"Traceback" not in written


def test_watch_clears_no_screen_and_so_does_not_flicker(jobq, terminal):
    watching = terminal("status", "--watch")
    seen = watching.until(rb"active workers 0")
    watching.until(rb"active workers 0", after=seen)
    watching.type(b"q")
    watching.end()
    assert not re.search(rb"\x1b\[[0-3]?J(?!\x1b)[^\x1b]", watching.written.replace(b"\x1b[J", b""))
    assert b"\x1b[2J" not in watching.written
    assert b"\x1bc" not in watching.written


def test_an_error_while_watching_is_told_on_the_screen_as_it_was_before(jobq, terminal):
    jobq.add(shell="true")
    watching = terminal("status", "--watch")
    watching.until(rb"active workers 0")
    (jobq.home / "queue" / "queue.json").write_bytes(b"\xff not a queue")
    assert watching.end() == 5
    assert watching.settings_now() == watching.settings
    assert b"jobq: " in watching.written[watching.written.index(LEAVE) :]
    assert b"Traceback" not in watching.written


def test_watch_gives_the_terminal_back_while_it_is_suspended(jobq, terminal, eventually):
    watching = terminal("status", "--watch")
    watching.until(rb"active workers 0")
    watching.type(CTRL_Z)
    status = Path(f"/proc/{watching.process.pid}/stat")
    eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
    assert watching.settings_now() == watching.settings
    seen = watching.until(re.escape(LEAVE))
    watching.send(signal.SIGCONT)
    seen = watching.until(re.escape(ENTER), after=seen)
    watching.until(rb"active workers 0", after=seen)
    watching.type(b"q")
    assert watching.end() == 0
    assert watching.settings_now() == watching.settings


def test_watch_draws_nothing_where_stdout_is_no_terminal(jobq, eventually):
    for words in (["status", "--watch"], ["status", "--watch", "--json"]):
        watching = jobq.start(*words, env={"TERM": "xterm"})
        select.select([watching.stdout], [], [], 30)
        watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=30)
        assert watching.returncode == 130
        assert b"\x1b" not in out
        assert b"pending" in out


def test_watch_as_json_is_one_object_a_second_changed_or_not(jobq):
    watching = jobq.start("status", "--watch", "--json", "--quiet")
    lines = [json.loads(watching.stdout.readline()) for _ in range(2)]
    assert lines[0] == lines[1]
    assert lines[0]["counts"]["pending"] == 0
    jobq.add(shell="true")
    while json.loads(watching.stdout.readline())["counts"]["pending"] == 0:
        continue
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)
    assert watching.returncode == 130


def test_watch_piped_shows_each_change_once(jobq):
    watching = jobq.start("status", "--watch", "--quiet")
    first = [watching.stdout.readline() for _ in range(7)]
    assert first[0] == b"pending      0\n"
    time.sleep(1.5)  # it looks again meanwhile
    jobq.add(shell="true")
    assert watching.stdout.readline() == b"\n"
    assert watching.stdout.readline() == b"pending      1\n"
    watching.kill()


def test_what_is_longer_than_the_screen_is_cut_and_said_to_be(jobq, terminal):
    watching = terminal("status", "--watch", rows=5, columns=20)
    watching.until("… \\d more lines".encode())
    watching.type(b"q")
    watching.end()
    (frame,) = watching.written.split(b"\x1b[H")[1:2]
    lines = frame.partition(b"\x1b[J")[0].split(b"\r\n")
    assert len(lines) == 5
    assert all(len(re.sub(rb"\x1b\[[\d;]*\w", b"", line).decode()) <= 20 for line in lines)


# --- progress elsewhere


def test_progress_of_a_running_job_is_told_by_list_show_and_why(jobq, member):
    jobq.add("--id", "counted", "--priority", "2", shell="true")
    jobq.add("--id", "uncounted", "--priority", "1", shell="true")
    jobq.add("--id", "silent", shell="true")
    for _ in range(3):
        member.take()
    member.progress("counted", 3, 10, "resizing")
    member.progress("uncounted", 7)
    lines = {line.split()[0]: line for line in jobq("list").stdout.splitlines()}
    assert "  processing 3/10 (30%)  " in lines["counted"]
    assert "  processing 7  " in re.sub(" {3,}", "  ", lines["uncounted"])
    assert "  processing  " in re.sub(" {3,}", "  ", lines["silent"])
    assert re.search(r"^progress +3/10 \(30%\) resizing$", jobq("show", "counted").stdout, re.MULTILINE)
    assert not re.search("^progress", jobq("show", "silent").stdout, re.MULTILINE)
    assert "says that it is at 3/10 (30%) resizing" in jobq("why", "counted").stdout
    told = {each["job"]: each["progress"] for each in jobq("worker", "list", "--json").json[0]["running"]}
    assert told == {
        "counted": {"done": 3, "total": 10, "note": "resizing"},
        "uncounted": {"done": 7, "total": None, "note": ""},
        "silent": None,
    }
    assert [job["state"] for job in jobq("list", "--json").json] == ["processing"] * 3


def test_progress_that_steers_a_terminal_or_is_none_does_no_harm(jobq, member):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 2, "\x1b]0;title\x07\u202e\n")
    for words in (["list"], ["show", "a"], ["why", "a"]):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", jobq(*words).stdout)
    member.progress("a", "much", -1)
    assert "  processing  " in jobq("list").stdout


# --- wait


def test_wait_draws_one_bar_for_all_of_them_on_stderr_alone(jobq, member, terminal):
    for name in ("a", "b", "c", "d"):
        jobq.add("--id", name, shell="true")
    member.take()
    member.take()
    waiting = terminal("wait", "a", "b", "c", "d", stdout=subprocess.PIPE)
    seen = waiting.until(rb"\[-{24}\]   0%  0 of 4 jobs")
    member.progress("a", 1, 2, "half")
    seen = waiting.until(rb"\[###-{21}\]  12%  0 of 4 jobs  1/2 half", after=seen)
    member.end("a")
    seen = waiting.until(rb"\[######-{18}\]  25%  1 of 4 jobs", after=seen)
    member.take()
    member.take()
    for name in ("b", "c", "d"):
        member.end(name)
    assert waiting.end() == 0
    assert waiting.process.stdout.read() == b""
    assert screen_of(waiting.written)[-5:] == [f"Job {name} completed" for name in ("a", "b", "c", "d")] + [""]


def test_wait_for_one_job_draws_what_it_reports_and_nothing_before(jobq, member, terminal):
    jobq.add("--id", "a", shell="true")
    member.take()
    waiting = terminal("wait", "a")
    waiting.until(rb"home: ")
    member.progress("a", 9, 10, "nearly")
    waiting.until(rb"\[#{21}---\]  90%  9/10 nearly")
    assert b"0 of 1" not in waiting.written
    member.end("a")
    assert waiting.end() == 0
    assert screen_of(waiting.written)[-2:] == ["Job a completed", ""]


def test_wait_for_several_is_well_only_if_all_completed(jobq, member):
    for name in ("a", "b"):
        jobq.add("--id", name, "--max-attempts", "1", shell="true")
        member.take()
    member.end("a")
    member.end("b", code=3)
    jobq("wait", "a")
    answer = jobq("wait", "a", "b", code=7)
    assert "Job a completed" in answer.stderr
    assert "Job b is dead: exit code 3" in answer.stderr
    assert "%" not in answer.stderr


@pytest.mark.parametrize(
    ("end", "code"),
    [(lambda waiting: waiting.type(CTRL_C), 130), (lambda waiting: waiting.send(signal.SIGTERM), 143)],
    ids=["ctrl-c", "term"],
)
def test_a_wait_that_is_ended_leaves_no_bar_behind(jobq, member, terminal, end, code):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 2)
    waiting = terminal("wait", "a")
    waiting.until(rb"50%")
    end(waiting)
    assert waiting.end() == code
    assert not any("%" in line for line in screen_of(waiting.written))
    assert b"Traceback" not in waiting.written


@pytest.mark.parametrize(("words", "env"), [(["--quiet"], {}), ([], {"TERM": "dumb"})], ids=["quiet", "dumb terminal"])
def test_no_bar_where_none_is_wanted_or_could_be_drawn(jobq, member, terminal, words, env):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 2)
    waiting = terminal("wait", "--timeout", "1", "a", *words, env=env)
    assert waiting.end() == 124
    assert b"%" not in waiting.written
    assert b"1 of 1 jobs have not ended" in waiting.written


# --- logs --follow


def test_follow_tells_progress_below_the_output_and_never_in_it(jobq, member, terminal):
    jobq.add("--id", "a", shell="true")
    member.take()
    output = member.output("a")
    following = terminal("logs", "--follow", "a")
    output.write(b"first\n")
    seen = following.until(rb"first\r\n")
    member.progress("a", 1, 4, "one")
    seen = following.until(rb"\[######-{18}\]  25%  1/4 one", after=seen)
    output.write(b"second\nthi")
    seen = following.until(rb"thi", after=seen)
    member.progress("a", 2, 4, "two")
    time.sleep(1)  # longer than progress would take to be shown
    assert screen_of(following.written)[-2:] == ["second", "thi"], "a line that has not ended is left alone"
    output.write(b"rd\n")
    seen = following.until(rb"50%  2/4 two", after=seen)
    member.progress("a", 3, 4, "three")
    following.until(rb"75%  3/4 three", after=seen)
    output.write(b"last\n")
    output.close()
    member.end("a")
    assert following.end() == 0
    assert screen_of(following.written)[1:] == ["first", "second", "third", "last", ""]
    unbroken = following.written.replace(b"\r\n", b"\n")
    assert re.search(rb"\r\x1b\[K" + b"last\n$", unbroken), "erased before output is printed"


@pytest.mark.parametrize("piped", ["stdout", "stderr"])
def test_follow_tells_no_progress_unless_both_streams_are_terminals(jobq, member, terminal, piped):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 4, "one")
    output = member.output("a")
    data = b"\x1b[31mred\x1b[0m\r\xff\n"
    following = terminal("logs", "--follow", "a", **{piped: subprocess.PIPE})
    output.write(data)
    time.sleep(0.8)  # longer than progress would take to be shown
    output.close()
    member.end("a")
    assert following.end() == 0
    assert b"25%" not in following.written
    if piped == "stdout":
        assert following.process.stdout.read() == data


def test_follow_with_ctrl_c_leaves_no_status_line(jobq, member, terminal):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 4, "one")
    following = terminal("logs", "--follow", "a")
    following.until(rb"25%")
    following.type(CTRL_C)
    assert following.end() == 130
    assert not any("25%" in line for line in screen_of(following.written))
    assert b"no longer following" in following.written


NASTY = (
    b"bell \x07 back \x08 tab\t title \x1b]0;x\x07 clip \x1b]52;c;eA==\x1b\\ over\rwrite del \x7f nul \x00\n"
    + "c1 \x9b2J bidi \u202e\u2066 zero \u200b\u2060\ufeff soft \xad grüße 漢\n".encode()
    + b"bad \xff\xc3\n"
)
SHOWN = [
    "bell \\x07 back \\x08 tab\t title \\x1b]0;x\\x07 clip \\x1b]52;c;eA==\\x1b\\ over\\x0dwrite del \\x7f nul \\x00",
    "c1 \\x9b2J bidi \\u202e\\u2066 zero \\u200b\\u2060\\ufeff soft \\xad grüße 漢",
    "bad \\xff\\xc3",
]


def test_follow_makes_all_that_steers_a_terminal_visible_wherever_it_is_cut(jobq, member, terminal):
    jobq.add("--id", "a", shell="true")
    member.take()
    output = member.output("a")
    following = terminal("logs", "--follow", "a", "--quiet")
    for start in range(0, len(NASTY), 7):
        output.write(NASTY[start : start + 7])
        time.sleep(0.02)  # so that many of the pieces are read one by one
    output.close()
    member.end("a")
    assert following.end() == 0
    assert following.written.decode().split("\r\n") == [*SHOWN, ""]


@pytest.mark.parametrize("words", [[], ["--raw"]])
def test_follow_into_a_pipe_is_the_very_bytes(jobq, member, words):
    jobq.add("--id", "a", shell="true")
    member.take()
    output = member.output("a")
    following = jobq.start("logs", "--follow", "a", *words)
    output.write(NASTY)
    output.close()
    member.end("a")
    assert following.communicate(timeout=30)[0] == NASTY


def test_follow_raw_on_a_terminal_is_the_very_bytes(jobq, member, terminal):
    jobq.add("--id", "a", shell="true")
    member.take()
    member.progress("a", 1, 2)
    output = member.output("a")
    output.write(b"\x1b]0;title\x07\x9bx\xff\n")
    output.close()
    following = terminal("logs", "--follow", "--raw", "--quiet", "a")
    following.until(rb"xff|\xff")
    member.end("a")
    assert following.end() == 0
    assert following.written == b"\x1b]0;title\x07\x9bx\xff\r\n"


# --- with jobs that run


def test_what_commands_and_handlers_report_is_shown_while_they_run_and_when_they_have_ended(
    jobq, start_worker, eventually
):
    hold = "while [ ! -e go ]; do sleep 0.02; done"
    (jobq.directory / "slow.py").write_text(
        "import os, time\n\n\ndef run(job, context):\n    context.progress(1, 2, 'half')\n"
        "    while not os.path.exists('go'):\n        time.sleep(0.02)\n"
    )
    jobq("config", "set", "handlers-path", ".")
    jobq("config", "set", "handlers.slow", "slow:run")
    start_worker("-n", "2")
    command = jobq.add(shell=f"echo 3/4 most >&$JOBQ_PROGRESS_FD; {hold}")
    handler = jobq("add", "slow").id
    for job, told in ((command, "3/4 (75%)"), (handler, "1/2 (50%)")):
        eventually(lambda job=job, told=told: f"processing {told}" in jobq("list", job).stdout)
    (jobq.directory / "go").touch()
    jobq("wait", command, handler)
    assert re.search(r"^progress +3/4 \(75%\) most$", jobq("show", command).stdout, re.MULTILINE)
    assert re.search(r"^progress +1/2 \(50%\) half$", jobq("show", handler).stdout, re.MULTILINE)
    assert jobq.job(command)["history"][-1]["progress"] == {"done": 3, "total": 4, "note": "most"}
