"""`enqueue` and `add`: new jobs, from programs and from people."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Command, Globals, command, read_input, show_json
from jobq.cli.text import local_time
from jobq.errors import HIDDEN, InvalidInput, JobqError
from jobq.strictjson import loads
from jobq.times import parse_at, parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.job import Job
    from jobq.store import NewJob

_ARGV = "jobq.argv"
_HINT = "To run a command, write -- before it: jobq add -- CMD [ARG]..."


@command("enqueue", short_help="Enqueue jobs given as JSON.")
@click.argument("spec", metavar="[JSON | -]", required=False)
@click.option("--file", "path", metavar="FILE", help="Read JSON Lines from FILE.")
@click.option("--if-absent", is_flag=True, help="An existing job of the same id and work is no error.")
@click.option("--allow-unknown-handler", is_flag=True, help="Accept handlers that are not installed here.")
@click.option("--json", "as_json", is_flag=True, help="Print the jobs' records instead of their ids.")
def enqueue_command(
    state: Globals, spec: str | None, path: str | None, if_absent: bool, allow_unknown_handler: bool, as_json: bool
) -> None:
    """Enqueue one job given as a JSON object, or many given as JSON Lines.

    \b
    jobq enqueue '{"command": "echo hello"}'
    jobq enqueue '{"handler": "resize", "payload": {"width": 10}, "priority": 3}'
    jobq enqueue --file jobs.jsonl
    generate | jobq enqueue -

    The whole input is checked before anything is stored. Each job's id is printed, in order.
    """
    if (spec is None) == (path is None):
        raise click.UsageError("give one JSON object, - for standard input, or --file FILE")
    if path is None and spec is not None and spec != "-":
        specs: list[Any] = [loads(spec)]
    else:
        specs = _lines(read_input(path or "-"))
        if not specs:
            state.note("the input holds no jobs")
            return
    new = state.queue.prepare(specs, allow_unknown_handler=allow_unknown_handler)
    jobs = _store(state, new, if_absent=if_absent)
    _answer(jobs, as_json=as_json)
    _tell(state, new, jobs)


class AddCommand(Command):
    """A command whose words behind `--` are kept apart: they are an argv, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`, and keep the rest in `ctx.meta`."""
        if "--" in args:
            place = args.index("--")
            args, ctx.meta[_ARGV] = args[:place], args[place + 1 :]
        worded = any(not word.startswith("-") for word in args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if worded and _ARGV not in ctx.meta:
                raise click.UsageError(f"{error.format_message()} {_HINT}", ctx) from None
            raise


@command("add", cls=AddCommand, short_help="Enqueue a command or a handler, in words.")
@click.argument("words", nargs=-1, metavar="[HANDLER [PAYLOAD] | -- CMD [ARG]...]")
@click.option("--shell", metavar="TEXT", help="A command line for /bin/sh.")
@click.option("--payload-file", metavar="FILE", help="Read the handler's payload from FILE (- for standard input).")
@click.option("--id", "job_id", metavar="ID", help="An id of your own.")
@click.option("--if-absent", is_flag=True, help="An existing job of the same id and work is no error.")
@click.option("-q", "--queue", metavar="NAME", help="The queue.")
@click.option("--priority", type=int, metavar="N", help="-1000 to 1000, higher first.")
@click.option("--delay", metavar="D", help="Not before that long from now: 90, 10m, 1h30m.")
@click.option("--at", metavar="TIME", help="Not before: 03:00, 'tomorrow 03:00', or RFC 3339.")
@click.option("--max-attempts", "--max-retries", type=int, metavar="N", help="Failed attempts that make it dead.")
@click.option("--timeout", metavar="D", help="The longest an attempt may take; none for no bound.")
@click.option("-t", "--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be given again.")
@click.option("-e", "--env", multiple=True, metavar="K[=V]", help="A variable for the command; K alone takes yours.")
@click.option("--env-file", metavar="FILE", help="Variables, one K=V a line; keeps secrets out of the arguments.")
@click.option("--clean-env", is_flag=True, help="Take no variables from this shell along.")
@click.option("-C", "--cwd", metavar="DIR", help="Where the command runs; default: here.")
@click.option("--on-lost", type=click.Choice(["retry", "dead"]), help="What if the worker dies while it runs.")
@click.option("--retry-on", metavar="LIST", help="Retry only these: 1,3-5,timeout,signal,ValueError; or none.")
@click.option("--no-retry-on", metavar="LIST", help="Never retry these.")
@click.option("--allow-unknown-handler", is_flag=True, help="Accept a handler that is not installed here.")
@click.option("-w", "--wait", is_flag=True, help="Return when the job has ended, with 7 if not well.")
@click.option("-f", "--follow", is_flag=True, help="Show its output while it runs, and wait.")
@click.option("--json", "as_json", is_flag=True, help="Print the job's record instead of its id.")
def add_command(state: Globals, words: tuple[str, ...], wait: bool, follow: bool, as_json: bool, **options: Any) -> int:
    """Enqueue a handler by its name, or a command after `--`.

    \b
    jobq add -- convert in.png -resize 50% out.png     no shell in between
    jobq add --shell 'make && make install'            a line for /bin/sh
    jobq add resize '{"width": 10}'                    a handler and its payload

    The command runs in this directory, with PATH and the like as they are in this shell.
    """
    if_absent, allow = options.pop("if_absent"), options.pop("allow_unknown_handler")
    if options["at"] is not None and options["delay"] is not None:
        raise click.UsageError("--at and --delay exclude one another")
    work = _work(words, click.get_current_context().meta.get(_ARGV), options)
    spec = work | _fields(state, options, captured="command" in work)
    try:
        new = state.queue.prepare([spec], allow_unknown_handler=allow)
    except InvalidInput as error:
        if error.field == "handler":
            raise InvalidInput(error.field, error.value, f"{error.rule}. {_HINT}") from None
        raise
    jobs = _store(state, new, if_absent=if_absent)
    waiting = wait or follow
    if not (as_json and waiting):
        _answer(jobs, as_json=as_json)
    _tell(state, new, jobs)
    if options["at"] is not None:
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
        raise click.UsageError("name one handler, or one command after --, or --shell TEXT")
    if options["payload_file"] is not None and not words:
        raise click.UsageError("--payload-file is for handlers")
    if options["shell"] is not None:
        return {"command": options["shell"]}
    if argv is not None:
        return {"command": list(argv)}
    if len(words) > 2:
        raise click.UsageError(f"a handler takes one payload. {_HINT}")
    spec: dict[str, Any] = {"handler": words[0]}
    if options["payload_file"] is not None:
        if len(words) == 2:
            raise click.UsageError("the payload is given twice")
        spec["payload"] = loads(read_input(options["payload_file"]))
    elif len(words) == 2:
        try:
            spec["payload"] = loads(read_input("-") if words[1] == "-" else words[1])
        except InvalidInput as error:
            raise click.UsageError(f"payload: {error}. {_HINT}") from None
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
        return state.queue.store_new(new, if_absent=if_absent)
    with click.progressbar(length=len(new), label="enqueueing", file=sys.stderr) as bar:
        return state.queue.store_new(new, if_absent=if_absent, progress=lambda done: bar.update(done - bar.pos))


def _answer(jobs: Sequence[Job], *, as_json: bool) -> None:
    if as_json:
        records = [job.full_record() for job in jobs]
        show_json(records[0] if len(records) == 1 else records)
    else:
        click.echo("\n".join(job.id for job in jobs))


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
    _note_unserved(state, jobs)


def _note_unserved(state: Globals, jobs: Sequence[Job]) -> None:
    """Say so where no live worker would run them: it saves a person from waiting for nothing."""
    if state.quiet:
        return
    try:
        workers = state.queue.workers()
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
