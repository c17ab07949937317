"""`demo`: a small real run, every step with the command a person would type and what it answers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Globals, command
from jobq.cli.streams import safe, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP_SECONDS = 60
"""No step takes longer unless something is wrong."""

_HANDLER = """\
def greet(job, context):
    return "hello " + job.payload["name"]
"""

_FLAKY = 'if test -e tried; then echo "second try: done"; else touch tried; echo "first try: failing"; exit 1; fi'

_PROMISED = {
    "hello": {"state": "completed", "attempts": 0},
    "flaky": {"state": "completed", "attempts": 1},
    "doomed": {"state": "dead", "attempts": 2},
    "greeting": {"state": "completed", "attempts": 0, "result": "hello Ada"},
}


@command("demo", short_help="A small real run in a temporary home, to see how it goes.")
def demo_command(_state: Globals) -> int:
    """Run four jobs in a temporary home and show every command: one that succeeds, one that fails and recovers,
    one that dies, and one of a handler in Python. Nothing of yours is touched, nothing is left behind.
    """
    with tempfile.TemporaryDirectory(prefix="jobq-demo-") as directory:
        wrong = _run(_Stage(Path(directory)))
    for sentence in wrong:
        talk(f"jobq: not as promised: {sentence}")
    return 1 if wrong else 0


class _Stage:
    """Runs the commands of the demo in a directory of its own, as processes of their own, and shows them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wrong: list[str] = []
        environ = {name: value for name, value in os.environ.items() if not name.startswith("JOBQ_")}
        self._environ = environ | {"JOBQ_HOME": str(directory / ".jobq")}

    def say(self, text: str) -> None:
        """Show a line of explanation."""
        click.echo(click.style(f"\n# {text}", bold=True))

    def jobq(self, *words: str, shown: bool = True) -> str:
        """Run `jobq WORDS` and show both it and what it answers; the answer."""
        if shown:
            click.echo(f"$ {shlex.join(('jobq', *words))}")
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "jobq", *words],
                cwd=self.directory,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=STEP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.wrong.append(f"jobq {words[0]} did not end within {STEP_SECONDS} s")
            return ""
        output = done.stdout.decode("utf-8", "backslashreplace")
        if shown:
            click.echo(safe(output, sys.stdout), nl=bool(output) and not output.endswith("\n"))
        if done.returncode != 0:
            self.wrong.append(f"jobq {words[0]} ended with {done.returncode}")
        return output


def _run(stage: _Stage) -> list[str]:
    """Play it; what was not as promised."""
    stage.say(f"A home for this demo: {stage.directory}/.jobq. Retries come quickly here.")
    stage.jobq("--quiet", "config", "set", "backoff-initial", "0.2")
    stage.say("A job that succeeds, one that fails and recovers, one that never succeeds.")
    stage.jobq("--quiet", "add", "--id", "hello", "--", "echo", "hello from a job")
    stage.jobq("--quiet", "add", "--id", "flaky", "--shell", _FLAKY)
    stage.jobq("--quiet", "add", "--id", "doomed", "--max-attempts", "2", "--", "false")
    stage.say("A function in Python as a handler: a file greetings.py beside the home, and its name in config.toml.")
    (stage.directory / "greetings.py").write_text(_HANDLER, encoding="utf-8")
    click.echo("".join(f"    {line}\n" for line in _HANDLER.splitlines()), nl=False)
    stage.jobq("--quiet", "config", "set", "handlers-path", ".")
    stage.jobq("--quiet", "config", "set", "handlers.greet", "greetings:greet")
    stage.jobq("--quiet", "add", "--id", "greeting", "greet", '{"name": "Ada"}')
    stage.say("A worker runs what is there, retries included, and ends when nothing is left.")
    stage.jobq("worker", "start", "--until-empty")
    stage.say("What became of them. The first try of `flaky` failed; `doomed` used up its attempts.")
    stage.jobq("--quiet", "list")
    stage.jobq("--quiet", "logs", "flaky")
    stage.say("Dead jobs wait in the dead letter queue until somebody looks: `jobq dlq retry doomed` tries again.")
    stage.jobq("--quiet", "dlq", "list")
    stage.say("And how it stands:")
    stage.jobq("--quiet", "status")
    wrong = [*stage.wrong, *_broken_promises(stage)]
    if not wrong:
        stage.say("All as promised. What next:")
        click.echo(_NEXT, nl=False)
    return wrong


def _broken_promises(stage: _Stage) -> Iterator[str]:
    """Compare the records, as programs read them, with what should have become of the jobs."""
    output = stage.jobq("--quiet", "list", "--jsonl", shown=False)
    jobs: dict[str, dict[str, Any]] = {}
    for line in output.splitlines():
        try:
            record = json.loads(line)
            jobs[record["id"]] = record
        except (ValueError, KeyError, TypeError):
            continue
    for job_id, promised in _PROMISED.items():
        found = {name: jobs.get(job_id, {}).get(name) for name in promised}
        if found != promised:
            yield f"{job_id} should be {promised}, and is {found}"


_NEXT = """\
jobq init                       a home in this directory, or use the one of your user
jobq add -- CMD [ARG]...        enqueue a command of yours
jobq worker start --detach      run what is enqueued, in the background
jobq status, jobq list          see how it stands
jobq --help                     everything else
"""
