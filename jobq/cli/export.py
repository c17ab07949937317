"""`export`: jobs with all their fields, to keep or to read elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Globals, command
from jobq.cli.redaction import redacted
from jobq.cli.selection import Selection, find, select, selection
from jobq.cli.streams import show_json_lines
from jobq.errors import JobqError, NotFound, UnsafeHome
from jobq.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator


@command("export", short_help="Write jobs as JSON Lines, with all their fields.")
@selection
@click.option("--file", "path", metavar="FILE", help="Write to FILE, which only you can read, and not to stdout (-).")
@click.option("--redact", is_flag=True, help="Leave out what looks like a secret.")
def export_command(state: Globals, selection: Selection, path: str | None, redact: bool) -> int:
    """Write jobs as JSON Lines: every job, or those selected, each with all its fields, as they are at one moment.

    \b
    jobq export --file jobs.jsonl           everything
    jobq export --redact -s dead            to be shown to others

    Everything is written as it is, secrets too, unless --redact is given: that goes by what variables, keys, options
    and headers are called, and cannot know a secret that nothing tells of. FILE is replaced as a whole once all is
    written; where no queue or none of the ids is found, it is left alone. What jobs have printed is not in it.
    """
    if path is not None and path != "-" and not state.app.home.exists():
        raise NotFound(f"there is no queue in {state.app.home.path}; {path} is left as it is")
    code = 0
    if selection.ids:
        jobs, code = select(state, selection, whole_ids=False)
        if not jobs:
            return code
        found = iter(jobs)
    else:
        found = find(state, selection)
    records: Iterator[Any] = (job.full_record() for job in found)
    if redact:
        records = map(redacted, records)
    if path in (None, "-"):
        show_json_lines(records)
        return code
    number = _write(Path(path), records)
    state.note(f"{number} job{'' if number == 1 else 's'} written to {path}")
    return code


def _write(path: Path, records: Iterator[Any]) -> int:
    """Write them to a file, as a whole and for its owner alone; how many there were."""
    number = 0
    with ExitStack() as stack:
        try:
            if os.path.lexists(path) and not S_ISREG(os.lstat(path).st_mode):
                raise UnsafeHome(f"{path} is not a regular file")
            descriptor = stack.enter_context(replacing(path, durable=True))
        except JobqError as error:
            raise click.UsageError(str(error)) from None
        file = stack.enter_context(open(descriptor, "w", encoding="ascii", closefd=False))
        for number, record in enumerate(records, 1):  # noqa: B007 - the last is the answer
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return number
