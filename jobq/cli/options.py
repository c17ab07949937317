"""The options of the commands that a shell loop runs, as a table: click reads it, and so does `jobq.cli.quick`.

Each entry is what `click.Option` is made with: its declarations and its attributes. A `type` is `int`, or the texts
that are allowed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Table = tuple[tuple[tuple[str, ...], dict[str, Any]], ...]

GLOBAL: Table = (
    (("--home",), {"metavar": "DIR", "help": "The home directory: where jobs and settings are kept."}),
    (("--store",), {"metavar": "URL", "help": "The store: json:, or NAME:ADDRESS of another one."}),
    (
        ("-p", "plugins"),
        {"metavar": "PLUGIN", "multiple": True, "help": "Require a plugin: NAME or ./file.py; no:NAME blocks it."},
    ),
    (("--quiet",), {"is_flag": True, "help": "No notes on stderr, only errors."}),
    (("--debug",), {"is_flag": True, "help": "Show the traceback of an error."}),
)
"""What every command takes, before its name and after it."""

ENQUEUE: Table = (
    (("--file", "path"), {"metavar": "FILE", "help": "Read JSON Lines from FILE."}),
    (("--if-absent",), {"is_flag": True, "help": "An existing job of the same id and work is no error."}),
    (("--allow-unknown-handler",), {"is_flag": True, "help": "Accept handlers that are not installed here."}),
    (("--json", "as_json"), {"is_flag": True, "help": "Print the jobs' records instead of their ids."}),
)

ADD: Table = (
    (("--shell",), {"metavar": "TEXT", "help": "A command line for /bin/sh."}),
    (
        ("--payload-file",),
        {"metavar": "FILE", "help": "Read the handler's payload from FILE (- for standard input)."},
    ),
    (("--id", "job_id"), {"metavar": "ID", "help": "An id of your own."}),
    (("--if-absent",), {"is_flag": True, "help": "An existing job of the same id and work is no error."}),
    (("-q", "--queue"), {"metavar": "NAME", "help": "The queue."}),
    (("--priority",), {"type": int, "metavar": "N", "help": "-1000 to 1000, higher first."}),
    (("--delay",), {"metavar": "D", "help": "Not before that long from now: 90, 10m, 1h30m."}),
    (("--at",), {"metavar": "TIME", "help": "Not before: 03:00, 'tomorrow 03:00', or RFC 3339."}),
    (
        ("--max-attempts", "--max-retries"),
        {"type": int, "metavar": "N", "help": "Failed attempts that make it dead."},
    ),
    (("--timeout",), {"metavar": "D", "help": "The longest an attempt may take; none for no bound."}),
    (("-t", "--tag", "tags"), {"multiple": True, "metavar": "TAG", "help": "A tag; may be given again."}),
    (
        ("-e", "--env"),
        {"multiple": True, "metavar": "K[=V]", "help": "A variable for the command; K alone takes yours."},
    ),
    (("--env-file",), {"metavar": "FILE", "help": "Variables, one K=V a line; keeps secrets out of the arguments."}),
    (("--clean-env",), {"is_flag": True, "help": "Take no variables from this shell along."}),
    (("-C", "--cwd"), {"metavar": "DIR", "help": "Where the command runs; default: here."}),
    (("--on-lost",), {"type": ("retry", "dead"), "help": "What if the worker dies while it runs."}),
    (("--retry-on",), {"metavar": "LIST", "help": "Retry only these: 1,3-5,timeout,signal,ValueError; or none."}),
    (("--no-retry-on",), {"metavar": "LIST", "help": "Never retry these."}),
    (("--allow-unknown-handler",), {"is_flag": True, "help": "Accept a handler that is not installed here."}),
    (("-w", "--wait"), {"is_flag": True, "help": "Return when the job has ended, with 7 if not well."}),
    (("-f", "--follow"), {"is_flag": True, "help": "Show its output while it runs, and wait."}),
    (("--json", "as_json"), {"is_flag": True, "help": "Print the job's record instead of its id."}),
)


def destination(declarations: tuple[str, ...]) -> str:
    """The name that an option's value has, as click finds it: the one without hyphens, or the first long one's."""
    for name in declarations:
        if not name.startswith("-"):
            return name
    long = next((name for name in declarations if name.startswith("--")), declarations[0])
    return long.lstrip("-").replace("-", "_").lower()
