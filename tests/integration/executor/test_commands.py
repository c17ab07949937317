"""Commands: how they are started, what they print, and how they end."""

import ast
import os
import signal
import subprocess
import sys
from datetime import timedelta

import pytest

from jobq.executor import Kind


@pytest.mark.parametrize("code", [1, 3, 127, 139, 255])
def test_an_exit_code(lab, code):
    outcome = lab.run(f"echo why; exit {code}")
    assert (outcome.kind, outcome.exit_code) == (Kind.FAILURE, code)
    assert outcome.reason == f"exit code {code}"
    assert outcome.tail == "why\n"


def test_exit_code_0_is_a_success_and_leaves_no_output(lab):
    outcome = lab.run("true")
    assert (outcome.kind, outcome.reason, outcome.exit_code) == (Kind.SUCCESS, None, 0)
    assert not (lab.home / "output").exists(), "nothing is created for a job that prints nothing"


@pytest.mark.parametrize(
    ("name", "told"), [("KILL", "SIGKILL"), ("SEGV", "SIGSEGV"), ("TERM", "SIGTERM"), ("40", "40")]
)
def test_a_signal(lab, name, told):
    outcome = lab.run(f"kill -{name} $$")
    assert (outcome.kind, outcome.exit_code, outcome.reason) == (Kind.SIGNAL, None, f"signal {told}")


def test_a_list_is_executed_without_a_shell(lab):
    run = lab.start(["printf", "<%s>", "a b", "$HOME", "*", "ünï", "new\nline", ""])
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output == "<a b><$HOME><*><ünï><new\nline><>".encode()


def test_a_shell_command_may_begin_with_a_dash(lab):
    run = lab.start("-x 2>/dev/null; echo after")
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output == b"after\n"


def test_what_cannot_be_started(lab, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("no program")
    orphaned = tmp_path / "orphaned"
    orphaned.write_text("#!/no/such/interpreter\n")
    orphaned.chmod(0o755)
    cases = {
        ("/no/such/program",): "no such file: /no/such/program",
        ("no-such-program-on-any-path",): "no such file: no-such-program-on-any-path",
        (f"{plain}/below",): f"no such file: {plain}/below",
        (str(plain),): f"not executable: {plain}",
        (str(tmp_path),): f"not executable: {tmp_path}",
        (str(orphaned),): f"not executable: {orphaned}",
        ("/two\nlines",): "no such file: /two\\nlines",
        ("true", "x" * (1 << 20)): "cannot be started: Argument list too long",
        ("a\0b",): "cannot be started: embedded null byte",
    }
    for command, reason in cases.items():
        outcome = lab.run(command)
        assert (outcome.kind, outcome.reason) == (Kind.CANNOT_START, reason)
        assert not outcome.permanent or outcome.delay is None


@pytest.mark.parametrize(("directory", "reason"), [("nowhere", "no such directory"), ("file", "no such directory")])
def test_a_directory_that_is_not_there(lab, tmp_path, directory, reason):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / directory)
    for command in ("true", ["true"]):
        outcome = lab.run(command, cwd=path)
        assert (outcome.kind, outcome.reason) == (Kind.CANNOT_START, f"{reason}: {path}")


def test_a_command_runs_in_its_directory(lab, tmp_path):
    directory = tmp_path / "ünï dir"
    directory.mkdir()
    run = lab.start("pwd -P", cwd=str(directory))
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output.decode() == f"{directory.resolve()}\n"


def test_the_environment(lab, monkeypatch):
    monkeypatch.setenv("FROM_THE_WORKER", "1")
    monkeypatch.setenv("OVERRIDDEN", "1")
    monkeypatch.setenv("JOBQ_WORKER", "an outer one")
    monkeypatch.setenv("JOBQ_SLOT", "99")
    monkeypatch.setenv("JOBQ_PROGRESS_FD", "0")
    monkeypatch.setenv("JOBQ_KILL_GRACE", "7s")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    lab.executor.close()
    lab.executor = lab.make()
    env = {"OVERRIDDEN": "2", "OWN": "ünï", "JOBQ_WORKER": "forged", "JOBQ_HOME": "forged"}
    run = lab.start(["env", "-0"], env=env, attempts=2, run=5, queue="mail", slot=3)
    assert run.outcome.kind is Kind.SUCCESS
    environ = dict(entry.split("=", 1) for entry in run.output.decode().split("\0") if entry)
    assert environ["FROM_THE_WORKER"] == "1"
    assert environ["OVERRIDDEN"] == "2"
    assert environ["OWN"] == "ünï"
    assert environ["PYTHONUNBUFFERED"] == "1"
    assert {name: value for name, value in environ.items() if name.startswith("JOBQ_")} == {
        "JOBQ_WORKER": lab.worker,
        "JOBQ_JOB_ID": run.job.id,
        "JOBQ_RUN": "5",
        "JOBQ_ATTEMPT": "3",
        "JOBQ_QUEUE": "mail",
        "JOBQ_SLOT": "3",
        "JOBQ_PROGRESS_FD": environ["JOBQ_PROGRESS_FD"],
        "JOBQ_HOME": str(lab.home),
        "JOBQ_STORE": "json:",
        "JOBQ_KILL_GRACE": "7s",
    }


def test_python_may_be_told_to_buffer(lab):
    run = lab.start("echo $PYTHONUNBUFFERED", env={"PYTHONUNBUFFERED": "0"})
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output == b"0\n"


def test_a_job_has_nothing_to_read_and_nothing_of_the_worker(lab):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        run = lab.start("cat; cut -d' ' -f6 /proc/$$/stat; echo $$; grep -E 'SigBlk|SigIgn' /proc/self/status")
        assert run.outcome.kind is Kind.SUCCESS
        session, pid, *masks = run.output.decode().splitlines()
        assert session == pid
        assert masks == [f"SigBlk:\t{0:016x}", f"SigIgn:\t{0:016x}"]
    finally:
        os.close(read)
        os.close(write)


def test_the_standard_streams_the_jobs_lock_and_the_pipe_for_progress_are_inherited_and_nothing_else(lab, tmp_path):
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    read, write = os.pipe()
    os.set_inheritable(write, True)
    tell = "import os; print({n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
    tell += " if os.path.lexists(f'/proc/self/fd/{n}')}); print(os.environ['JOBQ_PROGRESS_FD'])"
    try:
        run = lab.start([sys.executable, "-c", tell], jobs_fd=lock)
        assert run.outcome.kind is Kind.SUCCESS
        told, progress = run.output.decode().splitlines()
        descriptors = ast.literal_eval(told)
        assert descriptors.pop("0") == "/dev/null"
        assert descriptors.pop("1") == descriptors.pop("2")
        assert descriptors.pop(str(lock)) == str(tmp_path / "lock")
        assert descriptors.pop(progress).startswith("pipe:")
        assert descriptors == {}
        assert not os.get_inheritable(lock)
    finally:
        for descriptor in (lock, read, write):
            os.close(descriptor)


def test_output_is_kept_byte_for_byte(lab, tmp_path):
    data = bytes(range(256)) * 12_000
    (tmp_path / "data").write_bytes(data)
    run = lab.start(["cat", str(tmp_path / "data")])
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output == data


def test_the_order_of_both_streams_is_kept(lab):
    run = lab.start("for i in 1 2 3 4 5 6 7 8; do echo out $i; echo err $i >&2; done")
    assert run.outcome.kind is Kind.SUCCESS
    assert run.output == b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1, 9))


def test_output_is_there_while_the_job_runs(lab, eventually):
    run = lab.start("echo first; exec sleep 1000")
    eventually(lambda: run.output == b"first\n")
    assert run.outcomes == []
    run.running.stop(timedelta())
    assert run.outcome.kind is Kind.SIGNAL


def test_a_job_may_close_its_output(lab, tmp_path):
    run = lab.start(f"echo before; exec >&- 2>&-; echo x >{tmp_path / 'after'}; exit 4")
    assert run.outcome.exit_code == 4
    assert run.output == b"before\n"
    assert (tmp_path / "after").exists()


def test_more_output_than_is_kept(lab):
    run = lab.start("head -c 30000000 /dev/zero | tr '\\0' x; echo end", output_limit=1 << 16)
    assert run.outcome.kind is Kind.SUCCESS
    assert run.outcome.tail == "end\n" or run.outcome.tail.endswith("xend\n")
    assert len(run.output) < (1 << 16) + 100


def test_an_output_that_cannot_be_written_costs_no_job(lab):
    (lab.home / "output").write_text("in the way")
    outcome = lab.run("echo hello; exit 3")
    assert outcome.exit_code == 3
    assert outcome.tail == "hello\n"


def test_many_at_once(lab):
    runs = [lab.start(f"echo {number}; exit {number}", slot=number) for number in range(1, 30)]
    assert [run.outcome.exit_code for run in runs] == list(range(1, 30))
    assert [run.output for run in runs] == [b"%d\n" % number for number in range(1, 30)]


def test_a_timeout_ends_the_command_and_its_last_words_are_kept(lab):
    outcome = lab.run(f"echo last words; exec {sys.executable} -c 'import time; time.sleep(1000)'", timeout=0.25)
    assert (outcome.kind, outcome.reason, outcome.exit_code) == (Kind.TIMEOUT, "timed out after 0.25s", None)
    assert outcome.tail == "last words\n"


def test_one_that_is_quicker_than_its_timeout(lab):
    assert lab.run("exit 3", timeout=3600.0).exit_code == 3


def test_a_timeout_that_ends_politely_is_a_timeout(lab):
    outcome = lab.run("trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done", timeout=0.2)
    assert outcome.kind is Kind.TIMEOUT
    assert outcome.tail.endswith("told\n")


def test_a_stop_tells_how_the_leader_ended(lab, eventually):
    polite = lab.start("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    failing = lab.start("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")
    plain = lab.start("echo ready; exec sleep 1000")
    for run in (polite, failing, plain):
        eventually(lambda run=run: run.output == b"ready\n")
        run.running.stop(timedelta(seconds=60))
    assert polite.outcome.kind is Kind.SUCCESS
    assert failing.outcome.exit_code == 9
    assert plain.outcome.reason == "signal SIGTERM"


def test_a_stop_before_anything_has_happened(lab):
    runs = [lab.start("sleep 1000", slot=slot) for slot in range(5)]
    for run in runs:
        run.running.stop(timedelta(seconds=60))
    assert {run.outcome.kind for run in runs} == {Kind.SIGNAL}


def test_a_shorter_grace_replaces_a_longer_one(lab, eventually):
    run = lab.start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    eventually(lambda: run.output == b"ready\n")
    run.running.stop(timedelta(hours=1))
    run.running.stop(timedelta(hours=2))
    run.running.stop(timedelta(milliseconds=10))
    assert run.outcome.reason == "signal SIGKILL"
    run.running.stop(timedelta())
    assert len(run.outcomes) == 1


def test_closing_kills_what_runs(lab):
    runs = [lab.start("trap '' TERM; while :; do sleep 1; done", slot=slot) for slot in range(3)]
    lab.executor.close()
    assert {run.outcome.kind for run in runs} == {Kind.SIGNAL}


def test_a_machine_without_room_hands_jobs_back(lab, monkeypatch):
    def no_room(*_args, **_options):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("jobq_subprocess.command.subprocess.Popen", no_room)
    outcome = lab.run("true")
    assert outcome.kind is Kind.RELEASED
    assert outcome.delay > timedelta()
    assert "Resource temporarily unavailable" in outcome.reason
    monkeypatch.setattr("threading.Thread.start", lambda _thread: (_ for _ in ()).throw(RuntimeError("can't start")))
    lab.executor.close()
    lab.executor = lab.make()
    assert lab.run("true").kind is Kind.RELEASED


def test_a_process_that_cannot_be_watched_is_killed(lab, monkeypatch):
    def fail(_pid):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("os.pidfd_open", fail)
    outcome = lab.run("sleep 1000")
    assert outcome.kind is Kind.RELEASED
    assert outcome.reason == "this machine has no room for it: Too many open files"


def test_a_fault_of_the_executor_is_a_failure(lab, monkeypatch):
    def fail(self, wake):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("jobq_subprocess.command.Supervision.run", fail)
    outcome = lab.run("sleep 1000")
    assert outcome.kind is Kind.FAILURE
    assert outcome.reason == "executor failed: ZeroDivisionError: a fault"


def test_a_system_without_pidfds(lab, monkeypatch):
    monkeypatch.delattr("os.pidfd_open")
    assert lab.run("exit 3").exit_code == 3
    run = lab.start("exec >&-; exec sleep 0.05")
    assert run.outcome.kind is Kind.SUCCESS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_what_a_signal_ends_before_it_has_its_own_session_has_not_begun(lab, monkeypatch, number):
    """Between fork and exec it is of the worker's group: the terminal's Ctrl-C reaches it."""
    popen = subprocess.Popen

    def early(argv, **options):
        return popen(
            ["/bin/sh", "-c", f"ulimit -c 0; kill -{number.value} $$"], **options | {"start_new_session": False}
        )

    with monkeypatch.context() as patch:
        patch.setattr("jobq_subprocess.command.subprocess.Popen", early)
        for outcome in (lab.run("true"), lab.handle("echo", 1)):
            assert (outcome.kind, outcome.reason) == (Kind.RELEASED, "a signal ended it before it began")
    assert lab.run(f"kill -{number.value} $$").kind is Kind.SIGNAL
    assert lab.handle("echo", 1).result == 1


def test_a_fault_that_nothing_expects_costs_one_attempt(lab, monkeypatch):
    def fail(*_args, **_options):
        raise ZeroDivisionError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr("jobq_subprocess.command.Reports", fail)
        assert lab.run("true").reason == "executor failed: ZeroDivisionError: a fault"
    assert lab.run("true").kind is Kind.SUCCESS
