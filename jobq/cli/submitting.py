"""What `enqueue` and `add` do, whoever has read their options."""

from __future__ import annotations

import os
import sys

from jobq import adding
from jobq.cli.streams import read_input, say, show_json
from jobq.errors import HIDDEN, InvalidInput, JobqError, Misuse
from jobq.strictjson import loads
from jobq.times import parse_at, parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobq.cli.state import Globals
    from jobq.job import Job
    from jobq.store import NewJob

HINT = "To run a command, write -- before it: jobq add -- CMD [ARG]..."


def enqueue(
    state: Globals, *, spec: str | None, path: str | None, if_absent: bool, allow_unknown_handler: bool, as_json: bool
) -> int:
    """Enqueue one job given as a JSON object, or many given as JSON Lines; the exit code.

    Raises:
        Misuse: it is not said where they are, or they cannot be read.
        JobqError: they are not stored.
    """
    if (spec is None) == (path is None):
        raise Misuse("give one JSON object, - for standard input, or --file FILE")
    if path is None and spec is not None and spec != "-":
        specs: list[Any] = [loads(spec)]
    else:
        specs = _lines(read_input(path or "-"))
        if not specs:
            state.note("the input holds no jobs")
            return 0
    state.name_home()
    new = adding.prepare(state.app, specs, allow_unknown_handler=allow_unknown_handler)
    jobs = _store(state, new, if_absent=if_absent)
    _answer(jobs, as_json=as_json)
    _tell(state, new, jobs)
    return 0


def add(
    state: Globals,
    *,
    words: Sequence[str],
    argv: Sequence[str] | None,
    wait: bool,
    follow: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Enqueue a handler, or the command `argv`; the exit code.

    Raises:
        Misuse: it is not said what to run, or said twice.
        JobqError: it is not stored.
    """
    if_absent, allow = options.pop("if_absent"), options.pop("allow_unknown_handler")
    if options["at"] is not None and options["delay"] is not None:
        raise Misuse("--at and --delay exclude one another")
    work = _work(words, argv, options)
    spec = work | _fields(state, options, captured="command" in work)
    try:
        state.name_home()
        new = adding.prepare(state.app, [spec], allow_unknown_handler=allow)
    except InvalidInput as error:
        if error.field == "handler":
            raise InvalidInput(error.field, error.value, f"{error.rule}. {HINT}") from None
        raise
    jobs = _store(state, new, if_absent=if_absent)
    waiting = wait or follow
    if not (as_json and waiting):
        _answer(jobs, as_json=as_json)
    _tell(state, new, jobs)
    if options["at"] is not None:
        from jobq.cli.text import local_time

        past = " (that is past: at once)" if jobs[0].run_at <= state.app.clock.now() else ""
        state.note(f"runs at {local_time(jobs[0].run_at)}{past}")
    if not waiting:
        return 0
    if follow:
        from jobq.cli.logs import follow_job

        follow_job(state, jobs[0].id)
    from jobq.cli.wait import wait_for

    code = wait_for(state, [jobs[0].id])
    if as_json:
        _answer([state.queue.get(jobs[0].id)], as_json=True)
    return code


def _work(words: Sequence[str], argv: Sequence[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """The command or handler that was named: `words` before `--`, `argv` behind it (None where there was none)."""
    named = (bool(words), argv is not None, options["shell"] is not None)
    if sum(named) != 1:
        raise Misuse("name one handler, or one command after --, or --shell TEXT")
    if options["payload_file"] is not None and not words:
        raise Misuse("--payload-file is for handlers")
    if options["shell"] is not None:
        return {"command": options["shell"]}
    if argv is not None:
        return {"command": list(argv)}
    if len(words) > 2:
        raise Misuse(f"a handler takes one payload. {HINT}")
    spec: dict[str, Any] = {"handler": words[0]}
    if options["payload_file"] is not None:
        if len(words) == 2:
            raise Misuse("the payload is given twice")
        spec["payload"] = loads(read_input(options["payload_file"]))
    elif len(words) == 2:
        try:
            spec["payload"] = loads(read_input("-") if words[1] == "-" else words[1])
        except InvalidInput as error:
            raise Misuse(f"payload: {error}. {HINT}") from None
    return spec


def _fields(state: Globals, options: dict[str, Any], *, captured: bool) -> dict[str, Any]:
    """The other fields of the job, from the options that were given."""
    fields: dict[str, Any] = {}
    for option, name in (
        ("job_id", "id"),
        ("queue", "queue"),
        ("priority", "priority"),
        ("max_attempts", "max_attempts"),
        ("on_lost", "on_lost"),
    ):
        if options[option] is not None:
            fields[name] = options[option]
    if options["tags"]:
        fields["tags"] = list(options["tags"])
    if options["cwd"] is not None:
        fields["cwd"] = os.path.abspath(options["cwd"])
    if options["delay"] is not None:
        fields["delay"] = parse_duration("--delay", options["delay"])
    if options["at"] is not None:
        fields["run_at"] = parse_at("--at", options["at"], state.app.clock.now())
    if options["timeout"] is not None:
        never = options["timeout"].lower() == "none"
        fields["timeout"] = None if never else parse_duration("--timeout", options["timeout"])
    for option in ("retry_on", "no_retry_on"):
        if options[option] is not None:
            from jobq.spec import retry_conditions

            if not options[option].strip(", "):
                rule = "names nothing; say none for no condition"
                raise InvalidInput(f"--{option.replace('_', '-')}", options[option], rule)
            fields[option] = retry_conditions(option, options[option])
    env = _environment(state, options, captured=captured)
    if env:
        fields["env"] = env
    return fields


def _environment(state: Globals, options: dict[str, Any], *, captured: bool) -> dict[str, str]:
    """The variables that go with the job: captured ones, then those of the file, then those named."""
    env: dict[str, str] = {}
    if captured and not options["clean_env"]:
        env = {name: os.environ[name] for name in state.app.settings["capture-env"] if name in os.environ}
    if options["env_file"] is not None:
        for number, line in enumerate(
            read_input(options["env_file"]).decode("utf-8", "surrogateescape").splitlines(), 1
        ):
            text = line.strip()
            if text and not text.startswith("#"):
                name, equals, value = text.partition("=")
                if not equals or not name:
                    raise InvalidInput("--env-file", HIDDEN, "must be NAME=VALUE", line=number)
                env[name.removeprefix("export ").strip()] = value
    for pair in options["env"]:
        name, equals, value = pair.partition("=")
        if not equals:
            if name not in os.environ:
                raise InvalidInput("--env", name, "is not set in this shell")
            value = os.environ[name]
        env[name] = value
    return env


def _lines(data: bytes) -> list[Any]:
    """The JSON values of JSON Lines; blank lines are passed over."""
    specs = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                specs.append(loads(line))
            except InvalidInput as error:
                rule = f"{error.rule} (JSON Lines: each line is one object)"
                raise InvalidInput(error.field, error.value, rule, line=number) from None
    return specs


def _store(state: Globals, new: Sequence[NewJob], *, if_absent: bool) -> list[Job]:
    """Store the jobs; with a bar on a terminal where it takes a while."""
    if len(new) <= 5000 or not sys.stderr.isatty() or state.quiet:
        return adding.store_new(state.app, new, if_absent=if_absent)
    import click

    with click.progressbar(length=len(new), label="enqueueing", file=sys.stderr) as bar:
        return adding.store_new(state.app, new, if_absent=if_absent, progress=lambda done: bar.update(done - bar.pos))


def _answer(jobs: Sequence[Job], *, as_json: bool) -> None:
    if as_json:
        records = [job.full_record() for job in jobs]
        show_json(records[0] if len(records) == 1 else records)
    else:
        say("\n".join(job.id for job in jobs))


def _tell(state: Globals, new: Sequence[NewJob], jobs: Sequence[Job]) -> None:
    """Say what was stored, and what stands in the way of its running."""
    added = [job.created_at == item.job.created_at for item, job in zip(new, jobs, strict=True)]
    if len(jobs) > 100:
        there = f", {added.count(False)} exist already" if not all(added) else ""
        state.note(f"{added.count(True)} jobs enqueued{there}")
    else:
        for job, is_new in zip(jobs, added, strict=True):
            what = "enqueued" if is_new else "exists already"
            state.note(f"Job {job.id} {what} ({job.state})")
    note_unserved(state, jobs)


def note_unserved(state: Globals, jobs: Sequence[Job]) -> None:
    """Say so where no live worker would run them: it saves a person from waiting for nothing."""
    if state.quiet:
        return
    try:
        workers = state.app.store.workers()
    except JobqError as error:  # the jobs are stored all the same
        state.warn(f"who would run them cannot be told: {error}")
        return
    for queue in sorted({job.queue for job in jobs}):
        serving = [info for info in workers if info.queues is None or queue in info.queues]
        if not serving:
            state.note(f"no worker serves the queue {queue}; `jobq worker start --detach` starts one")
            continue
        for handler in sorted({job.handler for job in jobs if job.queue == queue and job.handler is not None}):
            if not any(handler in info.handlers for info in serving):
                state.note(f"no worker of the queue {queue} has the handler {handler}; one that is started now will")
