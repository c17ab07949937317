"""What tests have measured, and what they could not do here, is told at the end of a run, however many processes ran it.

With JOBQ_TEST_FIGURES=PATH what was measured is also appended to that file, one JSON object a line.
"""

import json
import os
import platform
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

# What is started inherits what is ignored: HUP under nohup, INT and QUIT in the background of a shell
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

FIGURE = "figure"
NEEDS = "Skipped: needs "


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`figure(name, text)`: tells at the end of the run what was measured."""

    def tell(name: str, text: str) -> None:
        request.node.user_properties.append((FIGURE, (name, text)))

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures, and how many tests were skipped because the machine could not do what they need."""
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    figures = [
        (*value, report.nodeid)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == FIGURE
    ]
    if figures:
        terminalreporter.section("figures")
        for name, text, _ in figures:
            terminalreporter.write_line(f"{name}: {text}")
        if path := os.environ.get("JOBQ_TEST_FIGURES"):
            _append(Path(path), figures)
    why = Counter(
        report.longrepr[2].removeprefix(NEEDS)
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and report.longrepr[2].startswith(NEEDS)
    )
    if why:
        reasons = "; ".join(f"{count} for want of {reason}" for reason, count in sorted(why.items()))
        terminalreporter.write_line(f"{why.total()} skipped that this machine cannot do: {reasons}")


def _append(path: Path, figures: list[tuple[str, ...]]) -> None:
    facts = {
        "size": os.environ.get("JOBQ_TEST_FAULTS") or "short",
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
    }
    with path.open("a", encoding="utf-8") as file:
        for name, text, test in figures:
            file.write(json.dumps({"name": name, "text": text, "test": test, **facts}) + "\n")


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
