"""The command line's entry, also as `python -m jobq`: a Ctrl-C while it is still being imported ends it quietly."""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line with this process's arguments, and exit with its code.

    Raises:
        SystemExit: always.
    """
    collecting = gc.isenabled()
    gc.disable()  # what is made at the start stays to the end
    try:
        from jobq.cli.entry import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    try:
        run(before_long=gc.enable if collecting else gc.disable)
    finally:
        gc.freeze()  # the process ends, and all of it with it: there is nothing to collect


if __name__ == "__main__":
    main()
