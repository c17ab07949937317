"""Where the command line begins and ends: what is run, by what, and what its errors are told with.

Nothing here imports click: the two commands that a shell loop runs do without it (`jobq.cli.quick`).
"""

from __future__ import annotations

import sys

from jobq.cli import quick
from jobq.cli.state import Globals
from jobq.cli.streams import NobodyReads, abandon, finish, is_unwritable, prepare, talk
from jobq.errors import JobqError, Misuse, PluginError, traceback_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn


def main(args: Sequence[str] | None = None, *, before_long: Callable[[], object] = lambda: None) -> NoReturn:
    """Run the command line with `args` (default: the process's own) and exit with its code.

    `before_long` is called before what may take long.
    """
    try:
        code = _run(sys.argv[1:] if args is None else list(args), before_long)
    except KeyboardInterrupt:  # it came while something else was being told or closed
        code = 130
    finish()
    sys.exit(code)


def _run(args: list[str], before_long: Callable[[], object]) -> int:
    prepare()
    state = Globals()
    try:
        try:
            code = _act(args, state, before_long)
        finally:
            state.close()
        sys.stdout.flush()
    except KeyboardInterrupt:
        talk("")
        return 130
    except (NobodyReads, BrokenPipeError):
        abandon(1)
        return 0
    except JobqError as error:
        if state.debug:
            talk(traceback_of(error))
        talk(f"jobq: {error}")
        return error.exit_code
    except Exception as error:
        if isinstance(error, OSError) and is_unwritable(error):
            abandon(1)
            talk(f"jobq: what was asked is done, but the answer cannot be written: {error.strerror}")
            return 74
        whose = state.plugin or "jobq itself"
        if state.debug:
            talk(f"{traceback_of(error)}\njobq: a fault in {whose}")
        else:
            talk(f"jobq: {_describe_fault(error, whose)}")
        return PluginError.exit_code if state.plugin else JobqError.exit_code
    return code


def _act(args: list[str], state: Globals, before_long: Callable[[], object]) -> int:
    act = quick.taken(args, state)
    if act is not None:
        try:
            return act()
        except Misuse:  # click tells how it is used
            if state.has_app:  # something was done: it is a plugin's word
                raise
    before_long()
    from jobq.cli.root import run

    return run(args, state)


def _describe_fault(error: Exception, whose: str) -> str:
    """One sentence for a fault in jobq itself, or in a plugin, and the file that now holds the traceback."""
    import os
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="jobq-fault-", suffix=".txt", text=True)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"jobq {' '.join(sys.argv[1:2])}, Python {sys.version}, {os.uname().sysname}\n\n")
        file.write(f"{traceback_of(error)}\n")
    return f"a fault in {whose} ({type(error).__name__}); the traceback is in {path}"
