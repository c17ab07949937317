"""Whether handlers can be imported: found out in a process of its own, since what importing them does is theirs to say.

Executed as `python -P -m jobq.importable`, with the question as JSON on stdin and the answer as the last line of stdout.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from jobq.errors import described

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 60.0
"""How long one process may take."""


def problems(targets: Mapping[str, str], path: Sequence[str]) -> dict[str, str]:
    """What keeps handlers from being imported, by name; those that can be are not among them.

    Args:
        targets: `module:attribute` of each, by name.
        path: directories that they may be imported from, before all others.
    """
    found = _asked(targets, path) if targets else {}
    if found is not None:
        return found
    if len(targets) == 1:
        return dict.fromkeys(targets, "importing it ends the process, or takes longer than a minute")
    each = (problems({name: target}, path) for name, target in targets.items())  # one of them is the culprit
    return {name: why for found in each for name, why in found.items()}


def _asked(targets: Mapping[str, str], path: Sequence[str]) -> dict[str, str] | None:
    """The answer of one process for all of them; None where it gives none."""
    question = json.dumps({"targets": dict(targets), "path": list(path)})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "jobq.importable"],
            input=question,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        return None
    return found


def _answer() -> None:
    from jobq.handlers import load

    question = json.load(sys.stdin)
    sys.path[:0] = question["path"]
    found = {}
    for name, target in question["targets"].items():
        try:
            load(target)
        except BaseException as error:  # SystemExit among them: a worker's process would end by it too
            found[name] = f"{target} cannot be imported: {described(error)}"
    sys.stdout.write("\n" + json.dumps(found) + "\n")


if __name__ == "__main__":
    _answer()
