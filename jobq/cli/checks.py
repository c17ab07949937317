"""What `doctor` looks at: one function a subject, each answering with what is wrong and what else there is to say."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.errors import InvalidInput, JobqError
from jobq.filesystem import NETWORK, kind, shortage, trial
from jobq.presence import WORKER_VARIABLE, left_running, members
from jobq.processes import boot_id, carriers, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jobq.app import App
    from jobq.cli.survey import Survey
    from jobq.members import WorkerInfo
    from jobq.store import Claim

FUTURE_SECONDS = 60.0
EARLIEST = 1_700_000_000.0
"""The clock has been set if it is later than this (November 2023)."""

_MENTIONED = 10


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one look: `problems` is empty where all is well; `facts` is what was seen, in a few words."""

    name: str
    problems: tuple[str, ...]
    facts: str = ""


def checks(found: Survey) -> Iterator[Check]:
    """Every check in turn; none of them raises, none changes anything (a file that is tried on is gone afterwards)."""
    yield Check("platform", (), _platform_facts())
    yield Check("home", tuple(found.home_problems), _home_facts(found))
    yield Check("settings", tuple(found.config_problems), f"{len(found.values)} settings")
    yield Check("plugins", tuple(_plugin_problems(found)), _plugin_facts(found))
    app = found.app
    if app is None:
        return
    for name, look in _LOOKS.items():
        try:
            problems, facts = look(app)
        except (JobqError, OSError) as error:
            problems, facts = [str(error)], ""
        yield Check(name, (*problems[:_MENTIONED], *_more(problems)), facts)


def _more(problems: list[str]) -> tuple[str, ...]:
    return (f"and {len(problems) - _MENTIONED} more of this kind",) if len(problems) > _MENTIONED else ()


def _home_facts(found: Survey) -> str:
    if found.app is None:
        return ""
    home = found.app.home
    return f"{home.path} ({home.source})" + ("" if os.path.lexists(home.path) else ", not there yet")


def _plugin_problems(found: Survey) -> Iterator[str]:
    yield from found.plugins.problems
    if found.asked is not None:
        yield str(found.asked)
    for value in found.values:
        if value.option.name in ("store", "executor", "backoff"):
            try:
                found.plugins.provider(value.option.name, str(value.value).partition(":")[0])
            except JobqError as error:
                yield str(error)
    chosen = found.handlers
    names = sorted({handler.name for handler in found.plugins.ambiguous if handler.name not in chosen})
    for name in names:
        owners = [handler.distribution for handler in found.plugins.ambiguous if handler.name == name]
        yield (
            f"the handler {name!r} is offered by {' and '.join(owners)}: "
            f"`jobq config set handlers.{name} MODULE:FUNCTION` chooses one"
        )


def _plugin_facts(found: Survey) -> str:
    fine = sum(plugin.status == "ok" for plugin in found.plugins.all)
    blocked = sum(plugin.status == "blocked" for plugin in found.plugins.all)
    return f"{fine} in use, {blocked} blocked, {len(found.handlers)} handlers"


def _permissions(app: App) -> tuple[list[str], str]:
    """Everything below the home is a file or directory of this user, closed to others."""
    problems, seen = [], 0
    for path, facts in _below(app.home.path):
        seen += 1
        if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            problems.append(f"{path} is neither a file nor a directory")
        elif facts.st_uid != os.geteuid():
            problems.append(f"{path} belongs to user {facts.st_uid}, not to this one")
        elif facts.st_mode & 0o077:
            mode = "700" if stat.S_ISDIR(facts.st_mode) else "600"
            problems.append(f"{path} is open to other users; `chmod {mode} {path}` closes it")
    if app.home.exists() and not os.access(app.home.path, os.W_OK):
        problems.append(f"{app.home.path} cannot be written to")
    return problems, f"{seen} files and directories"


def _below(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """What is in a directory and below; what goes while it is looked at is passed over."""
    waiting = [os.fspath(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield entry.path, facts
                    if stat.S_ISDIR(facts.st_mode):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue


def _file_system(app: App) -> tuple[list[str], str]:
    """What the home and the store are kept on is local; locks, syncs, renames and maps are tried, where they are."""
    problems, facts = [], []
    for place, there in _places(app):
        name = kind(place)
        if name in NETWORK:
            problems.append(f"{place} is on a network file system ({name}): its locks and syncs cannot be relied on")
        if there:
            problems += trial(place)
        facts.append((name or "cannot be told") + ("; locks, syncs, renames and maps work" if there else ""))
    return problems, ", ".join(facts)


def _space(app: App) -> tuple[list[str], str]:
    """There is room for more, in bytes and in files."""
    found = [shortage(place) for place, _ in _places(app)]
    return [problem for problems, _ in found for problem in problems], ", ".join(facts for _, facts in found)


def _places(app: App) -> list[tuple[Path, bool]]:
    """The home, and the store's directory if that is on another file system, as far as they are there; and if they are."""
    home, address = app.home.path, ""
    with contextlib.suppress(InvalidInput):  # told as a wrong setting
        address = app.settings["store"].partition(":")[2]
    store = home / address
    if store.is_file():
        store = store.parent
    places = {_there(home).stat().st_dev: home}
    if not address.startswith("//"):  # a server's
        places.setdefault(_there(store).stat().st_dev, store)
    return [(_there(place), place.exists()) for place in places.values()]


def _there(path: Path) -> Path:
    """The path, or the nearest one above it that exists."""
    while not path.exists():
        path = path.parent
    return path


def _clock(app: App) -> tuple[list[str], str]:
    """The wall clock has been set, and nothing of the home was written after now."""
    now = time.time()
    problems = []
    if now < EARLIEST:
        problems.append(f"the clock says {app.clock.now():%Y-%m-%d}: it has not been set")
    newest = max(((facts.st_mtime, path) for path, facts in _below(app.home.path)), default=(0.0, ""))
    if newest[0] > now + FUTURE_SECONDS:
        problems.append(
            f"{newest[1]} was written {newest[0] - now:.0f} s after now: the clock was set back; "
            "what is due later waits for that long"
        )
    return problems, f"{app.clock.now():%Y-%m-%dT%H:%M:%SZ}"


def _store(app: App) -> tuple[list[str], str]:
    """The stored data is whole."""
    if not app.home.exists():
        return [], "no home yet, so no jobs"
    problems = list(app.store.check())
    if (notice := app.store.notice()) is not None:
        problems.append(f"{notice.moved.what}; {notice.way_on(app.store.url)}")
    counts = app.store.counts(now=app.clock.now())
    if counts.damaged and not problems:
        problems.append(f"{counts.damaged} damaged records were set aside")
    remark = app.store.remark()
    facts = f"{app.store.url}, jobs: {sum(counts.states.values())}"
    return problems, f"{facts}; {remark}" if remark else facts


def _workers(app: App) -> tuple[list[str], str]:
    """Nothing is left of workers that died: no files, no jobs, no processes."""
    if not app.home.exists():
        return [], "none"
    known = list(members(app.home.path / "workers"))
    gone: dict[str, tuple[WorkerInfo, list[Claim]]] = {info.id: (info, []) for info, alive in known if not alive}
    gone |= {info.id: (info, claims) for info, claims in app.store.lost(now=app.clock.now())}
    problems = []
    for info, claims in gone.values():
        told = []
        if claims:
            told.append(f"it still holds {', '.join(claim.job.id for claim in claims[:_MENTIONED])}")
        if left := _left_running(app, info):
            told.append(f"what its jobs started still runs ({left})")
        problems.append(
            f"worker {info.name} (pid {info.pid}) is gone and not yet cleaned up after; any worker does that"
            + "".join(f"; {sentence}" for sentence in told)
        )
    return problems, f"{sum(alive for _, alive in known)} at work"


def _left_running(app: App, info: WorkerInfo) -> str:
    """The processes that a dead worker of this boot left, in words; "" for none. In a copy of its home it has none."""
    if info.boot_id != boot_id():
        return ""
    pids = sorted(found.pid for found in carriers(f"{WORKER_VARIABLE}={info.id}".encode())) if visible() else []
    if pids:
        return f"pid {', '.join(str(pid) for pid in pids[:_MENTIONED])}"
    return "it cannot be found" if left_running(app.home.path / "workers", info.id) else ""


def _handlers(app: App) -> tuple[list[str], str]:
    """The directories that handlers may be imported from are there, and every handler can be imported."""
    from jobq import importable

    places = [app.home.path.parent / name for name in app.settings["handlers-path"]]
    problems = [f"handlers-path: {path} is no directory" for path in places if not path.is_dir()]
    targets = {name: handler.target for name, handler in app.handlers.items()}
    found = importable.problems(targets, [str(path) for path in places])
    problems += [f"{name}: {why}" for name, why in sorted(found.items())]
    return problems, f"{len(app.handlers)} by name"


def _platform_facts() -> str:
    system = os.uname().sysname
    limit = "" if system == "Linux" else "; what a dead worker's jobs left running is reported here, not ended"
    return f"Python {'.'.join(str(part) for part in sys.version_info[:3])}, {system}{limit}"


_LOOKS: dict[str, Callable[[App], tuple[list[str], str]]] = {
    "permissions": _permissions,
    "file system": _file_system,
    "space": _space,
    "clock": _clock,
    "store": _store,
    "workers": _workers,
    "handlers": _handlers,
}
