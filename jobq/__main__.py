"""The command line's entry, also as `python -m jobq`: a Ctrl-C while it is still being imported ends it quietly."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line with this process's arguments, and exit with its code.

    Raises:
        SystemExit: always.
    """
    try:
        from jobq.cli.entry import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
