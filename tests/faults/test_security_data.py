"""What comes in payloads, arguments, names and output is data: it is not run, imported, believed or let steer anything."""

import ast
import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

import jobq as package
import jobq_exponential
import jobq_json
import jobq_log
import jobq_subprocess
from jobq.cli import text
from jobq.errors import JobqError
from jobq.strictjson import loads
from jobq.times import parse_duration, parse_time
from tests.integration.terminals import Terminal

from .capabilities import need
from .homes import add
from .injecting import spread
from .sizes import rounds
from .stores import JSON

EVERY = 10**6
CANARY = "canary-5f3759df"

PACKAGES = (package, jobq_json, jobq_subprocess, jobq_exponential, jobq_log)
SOURCES = sorted(path for each in PACKAGES for path in Path(each.__file__).parent.rglob("*.py"))

MAKES_OBJECTS = frozenset(
    {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "dbm"}
)
RUNS_TEXT = frozenset({"eval", "exec", "execfile", "__import__"})
OF_ENTRY_POINTS = {("pluginimport.py", "__import__")}
"""What is imported by name there, an installed distribution names, and nothing that is stored."""
RUNS_A_SHELL = frozenset(
    {"os.system", "os.popen", "subprocess.getoutput", "click.edit", "click.launch", "click.echo_via_pager"}
)


def dangers(tree):
    """What of a source could make code of data: (line, name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from ((node.lineno, name) for name in names if name.split(".")[0] in MAKES_OBJECTS)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in RUNS_TEXT | RUNS_A_SHELL:
                yield node.lineno, name
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                    yield node.lineno, f"{name}(shell=…)"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_makes_objects_or_programs_of_what_is_stored(path):
    found = dangers(ast.parse(path.read_text(encoding="utf-8")))
    assert [danger for danger in found if (path.name, danger[1]) not in OF_ENTRY_POINTS] == []


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from marshal import loads", "eval(x)", "os.system(x)", "run(x, shell=True)", "click.edit(x)"],
)
def test_the_look_itself_sees_each(source):
    assert list(dangers(ast.parse(source))) != []


def test_libraries_with_known_holes_are_not_accepted():
    """click before 8.3.3 gave file names to a shell, filelock before 3.20.3 followed symbolic links."""
    root = Path(__file__).parents[2] / "pyproject.toml"
    least = {}
    for line in tomllib.loads(root.read_text())["project"]["dependencies"]:
        name, _, version = line.partition(">=")
        least[name] = tuple(int(part) for part in version.split("."))
    assert least["click"] >= (8, 3, 3)
    assert least["filelock"] >= (3, 20, 3)


OBJECTS = [
    {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["touch ran"]}]},
    {"__reduce__": ["os.system", "touch ran"], "__class__": "subprocess.Popen", "__proto__": {"admin": 1}},
    "!!python/object/apply:os.system ['touch ran']",
    "gASVHQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAl0b3VjaCByYW6UhZRSlC4=",
    "{{7*7}} ${7*7} %(x)s {0.__class__} `touch ran` $(touch ran)",
]


def test_a_payload_and_a_result_are_data(jobq):
    (jobq.directory / "here.py").write_text("def echo(job, context):\n    return job.payload\n")
    jobq("config", "set", "handlers-path", str(jobq.directory))
    jobq("config", "set", "handlers.echo", "here:echo")
    before = set(jobq.directory.rglob("ran"))
    specs = [{"id": f"job-{number}", "handler": "echo", "payload": each} for number, each in enumerate(OBJECTS)]
    jobq("enqueue", "-", input="".join(json.dumps(spec) + "\n" for spec in specs))
    jobq.run_all()
    jobs = {job["id"]: job for job in jobq("list", "--json").json}
    for number, each in enumerate(OBJECTS):
        assert jobs[f"job-{number}"]["result"] == each
    assert set(jobq.directory.rglob("ran")) == before


HOSTILE = [
    "; touch ran",
    "$(touch ran)",
    "`touch ran`",
    "-oProxyCommand=touch ran",
    "a\nb",
    "--",
    "-x",
    "*",
    "~",
    "'\"\\",
    "",
]
RECORDER = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['VALUE'], os.getcwd()]))"


def test_arguments_variables_and_directories_reach_the_program_as_they_are(jobq):
    odd = jobq.directory / "a; touch ran $(touch ran)"
    odd.mkdir()
    value = "; touch ran\n$(touch ran) `touch ran`"
    words = ["--env", f"VALUE={value}", "--cwd", str(odd), "--", sys.executable, "-c", RECORDER, *HOSTILE]
    job = jobq("add", *words).id
    shell = jobq("add", "--env", f"VALUE={value}", "--shell", 'printf %s "$VALUE"').id
    jobq.run_all()
    assert json.loads(jobq("logs", job).out) == [HOSTILE, value, str(odd)]
    assert jobq("logs", shell).stdout == value
    assert list(jobq.directory.rglob("ran")) == []
    assert jobq("enqueue", json.dumps({"command": ["echo", "a\0b"]}), code=1).stderr


def test_a_handler_is_a_name_and_no_path_to_import(jobq):
    (jobq.directory / "planted.py").write_text(f"open({str(jobq.directory / 'ran')!r}, 'w')\ndef run(*_): pass\n")
    names = ["os.system", "builtins:eval", "planted", "planted:run", "planted.run"]
    for name in ("..", "os system", "a/b", "", *names):
        refused = jobq("enqueue", json.dumps({"handler": name, "payload": "touch ran"}), code=1)
        assert "handler: " in refused.stderr, name
    specs = "".join(json.dumps({"handler": name, "payload": "touch ran"}) + "\n" for name in names)
    jobq("enqueue", "--allow-unknown-handler", "-", input=specs)
    jobq("worker", "start", "--until-idle")
    assert [(job["state"], job["run"]) for job in jobq("list", "--json").json] == [("pending", 0)] * len(names)
    assert not (jobq.directory / "ran").exists()


INTERNAL = [
    *("queue.json", "jobs-1.jsonl", "journal-1.jsonl", "queue.lock", "bell", "default", "pending", "counts", "paused"),
    *("crc", "seq", "id", "null", "true", "0", "constructor", "a:b", "a.b", "archive", "sections"),
]


def test_no_name_of_a_queue_or_a_job_collides_with_one_of_the_stores_own(tmp_path):
    from jobq.store import Query
    from jobq.testing import START

    home = tmp_path / "home"
    for name in INTERNAL:
        add(home, name, queue=name, tags=(name,))
    JSON.tidy(home)
    for name in INTERNAL:
        add(home, f"{name}-2", queue=name)
    store = JSON.open(home, lambda _: None)
    try:
        store.pause("paused", True, now=START)
        assert store.check() == []
        counts = store.counts(now=START)
        assert {name: sum(states.values()) for name, states in counts.queues.items()} == dict.fromkeys(INTERNAL, 2)
        assert list(counts.paused) == ["paused"]
        for name in INTERNAL:
            assert {job.id for job in store.find(Query(queue=name))} == {name, f"{name}-2"}
    finally:
        store.close()


MALFORMED = {
    "deep": b"[" * 1_000_000,
    "deep object": b'{"a":' * 100_000,
    "deep payload": b'{"handler":"h","payload":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "no text": bytes(range(256)),
    "half a character": b'{"command":"\xe2\x82"}',
    "lone surrogate": b'{"command":"\\ud800"}',
    "NUL": b'{"command":"\\u0000"}',
    "a huge number": b'{"command":"true","priority":' + b"9" * 10_000 + b"}",
    "beyond all numbers": b'{"command":"true","timeout":1e999}',
    "NaN": b'{"command":"true","timeout":NaN}',
    "keys twice": b'{"command":"true","command":"false"}',
    "a key of a megabyte": b'{"' + b"x" * (1 << 20) + b'":1}',
    "a huge id": b'{"command":"true","id":"' + b"x" * (1 << 20) + b'"}',
    "UTF-16": '{"command":"true"}'.encode("utf-16"),
}


@pytest.mark.parametrize(
    "name", [list(MALFORMED)[n - 1] for n in spread(len(MALFORMED), rounds(short=4, full=EVERY, long=EVERY))]
)
def test_what_is_malformed_is_refused_in_a_sentence_and_nothing_is_stored(jobq, name):
    refused = jobq("enqueue", "-", input=MALFORMED[name], code=1)
    assert "Traceback" not in refused.stderr
    assert len(refused.stderr) < 2000
    assert not jobq.home.exists()


LONG = 200_000


@pytest.mark.parametrize(
    "repeated", ["1", "1h", " ", "-", "a", "=", "://", "://:", "://a:", "@", "\\", '"', "[", "\x1b[", "."]
)
def test_no_input_takes_time_that_grows_faster_than_it(repeated):
    """One that grew with the square of the length would not end within the time that a test has."""
    given = repeated * (LONG // len(repeated))
    for end in ("", "@", "x", "\0"):
        for read in (lambda value: parse_duration("delay", value), parse_time, loads):
            try:
                read(given + end)
            except (JobqError, ValueError):
                pass
        text.visible(given + end)
        text.masked(given + end, given + end)
        text.pairs([("id", given + end)])


SEQUENCES = "\x1b]0;had\x07\x1b]52;c;eA==\x07\x1bP$q\x1b\\\x9b31m\x9d0;t\x9c\r\b\x7f\u202e\u200b\x00"
STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202e]")


def test_nothing_that_is_shown_on_a_terminal_steers_it(jobq):
    """What a job printed, is called or says, where it lies, and what was typed, in all commands that show it."""
    hostile = SEQUENCES.replace("\0", "")
    command = f"printf '%s' '{hostile}'; echo '{hostile}' >&2; exit 3"
    spec = {
        "id": "job",
        "command": command,
        "max_attempts": 1,
        "env": {"A": hostile},
        "tags": ["t"],
        "meta": {"m.x": hostile},
    }
    jobq("enqueue", json.dumps(spec))
    jobq("pause", "odd", "--reason", hostile)
    (jobq.home / hostile).write_bytes(b"")
    (jobq.home / hostile).chmod(0o644)
    jobq.environ["NO_COLOR"] = "1"
    commands = [
        (1, "worker", "start", "--until-idle", "--name", "w"),
        (1, "show", "job"),
        (1, "dlq", "list"),
        (1, "doctor"),
        (1, "status"),
        (1, "logs", "job"),
        (0, "list"),
        (0, "why", "job"),
        (0, "logs", "-f", "job"),
        (0, "worker", "list"),
        (0, "config", "list"),
        (0, "config", "set", "timeout", hostile),
        (0, "config", "set", hostile, "1"),
        (0, "show", hostile),
        (0, "cancel", hostile),
        (0, "add", "-q", hostile, "--", "true"),
        (0, "enqueue", "{" + hostile),
        (0, "logs", "--run", hostile, "job"),
        (0, "wait", hostile),
        (0, "worker", "stop", hostile),
        (0, hostile),
        (0, f"--{hostile}"),
        (0, "-p", hostile, "status"),
        (0, "--home", f"/{hostile}", "add", "--", "true"),
    ]
    shown = 0
    for always, *words in commands:
        if not always and rounds(short=1, full=0, long=0):
            continue
        terminal = Terminal(jobq.command(*words), env=jobq.environ, cwd=jobq.directory)
        try:
            terminal.end()
            written = terminal.written.decode().replace("\r\n", "\n")
        finally:
            terminal.close()
        assert STEERING.search(written) is None, (words, written)
        assert "\r" not in written, words
        shown += "\\x1b" in written
    assert shown >= 4


def test_a_job_cannot_command_jobq_or_forge_its_log_by_what_it_prints(jobq):
    lines = [
        '{"time":"2026-01-01T00:00:00.000Z","event":"completed","id":"other","run":1}',
        "09:00:00  other  completed after 0.1s",
        "jobq: Job other deleted",
        '{"op":"del","jobs":[["other",59]],"seq":3}',
        '{"progress": 1.0, "result": {"forged": true}, "state": "completed"}',
        "::set-output name=state::completed",
    ]
    jobq("add", "--id", "other", "--queue", "later", "--", "true")
    jobq("config", "set", "log.file", "jobq.log")
    script = "".join(f"echo '{line}'; echo '{line}' >&2; " for line in lines)
    jobq("add", "--id", "forger", "--max-attempts", "1", "--shell", f"{script} exit 1")
    answer = jobq("worker", "start", "--until-idle", "-q", "default")
    assert jobq.state("other") == "pending"
    assert jobq.job("forger")["result"] is None
    assert jobq.state("forger") == "dead"
    told = answer.stderr + answer.stdout
    log = (jobq.home / "jobq.log").read_text()
    for line in lines:
        assert line not in told.splitlines()
        assert line not in log.splitlines()
    (ended,) = [line for line in told.splitlines() if re.match(r"\d\d:\d\d:\d\d", line)]
    assert ended.split()[1] == "forger"
    assert {json.loads(line)["id"] for line in log.splitlines()} == {"forger"}


def commands_and_environments():
    """What every user sees of each process, and what its own user sees of its environment."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                yield (
                    int(name),
                    Path(f"/proc/{name}/cmdline").read_bytes(),
                    Path(f"/proc/{name}/environ").read_bytes(),
                )
            except OSError:
                continue


def test_a_secret_that_was_given_in_a_file_is_shown_nowhere(jobq, start_worker, eventually):
    need("proc")
    secrets = jobq.directory / "secrets"
    secrets.write_text(f"API_TOKEN={CANARY}\n")
    jobq("config", "set", "log.file", "jobq.log")
    jobq("config", "set", "log.level", "info")
    start_worker()
    script = 'echo ready; sleep 300 & trap "kill $!; exit 3" TERM; wait'
    job = jobq("add", "--env-file", str(secrets), "--max-attempts", "1", "--shell", script).id
    eventually(lambda: jobq("logs", job).out == b"ready\n")
    canary = CANARY.encode()
    marker = f"JOBQ_JOB_ID={job}".encode()
    processes = list(commands_and_environments())
    assert [command for _, command, _ in processes if canary in command] == []
    assert all(marker in environment for _, _, environment in processes if canary in environment)
    assert any(canary in environment for _, _, environment in processes), "the job has it"
    for words in (("show", job), ("list",), ("why", job), ("status",), ("worker", "list"), ("export", "--redact")):
        answer = jobq(*words)
        assert CANARY not in answer.stdout + answer.stderr, words
    jobq("cancel", job)
    with_it = [path for path in jobq.home.rglob("*") if path.is_file() and canary in path.read_bytes()]
    assert {path.parent.name for path in with_it} == {"queue"}, "it is kept with the job, and nowhere else"
    assert all(path.stat().st_mode & 0o077 == 0 for path in with_it)
