"""What `doctor` looks at: one function a subject, each answering with what is wrong and what else there is to say."""

from __future__ import annotations

import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.errors import JobqError
from jobq.presence import members

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jobq.app import App
    from jobq.cli.survey import Survey

LEAST_FREE = 64 << 20
"""Bytes of free space below which a queue is one burst of output away from standing still."""

FUTURE_SECONDS = 60.0
EARLIEST = 1_700_000_000.0
"""The clock has been set if it is later than this (November 2023)."""

_MENTIONED = 10
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "glusterfs", "lustre"})
_NETWORK |= {"beegfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one look: `problems` is empty where all is well; `facts` is what was seen, in a few words."""

    name: str
    problems: tuple[str, ...]
    facts: str = ""


def checks(found: Survey) -> Iterator[Check]:
    """Every check in turn; none of them raises, none changes anything."""
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
    """The home is on a local file system: others do not keep the promises of locks and syncs."""
    place = _there(app.home.path)
    kind = _mounted(os.path.realpath(place))
    if kind in _NETWORK:
        return [f"{place} is on a network file system ({kind}): its locks and syncs cannot be relied on"], kind
    return [], kind or "cannot be told"


def _mounted(path: str) -> str:
    """The type of the file system that holds `path`; "" where the system does not tell."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except OSError:
        return ""
    best, kind = "", ""
    for place, name in mounts:
        plain = place.replace("\\040", " ")
        if (path == plain or path.startswith(plain.rstrip("/") + "/")) and len(plain) >= len(best):
            best, kind = plain, name
    return kind


def _space(app: App) -> tuple[list[str], str]:
    facts = os.statvfs(_there(app.home.path))
    free = facts.f_bavail * facts.f_frsize
    problems = []
    if free < LEAST_FREE:
        problems.append(f"only {free >> 20} MiB are free where the home is")
    if facts.f_files and facts.f_favail < 1000:
        problems.append(f"only {facts.f_favail} more files can be made where the home is")
    return problems, f"{free >> 20} MiB free"


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
    counts = app.store.counts(now=app.clock.now())
    if counts.damaged and not problems:
        problems.append(f"{counts.damaged} damaged records were set aside")
    return problems, f"{app.store.url}, jobs: {sum(counts.states.values())}"


def _workers(app: App) -> tuple[list[str], str]:
    """Nothing is left of workers that died: no files, no jobs, no processes."""
    if not app.home.exists():
        return [], "none"
    problems = []
    alive = 0
    for info, is_alive in members(app.home.path / "workers"):
        alive += is_alive
        if not is_alive:
            problems.append(
                f"worker {info.name} (pid {info.pid}) is gone and not yet cleaned up after; any worker does that"
            )
    for info, claims in app.store.lost(now=app.clock.now()):
        if claims:
            jobs = ", ".join(claim.job.id for claim in claims[:_MENTIONED])
            problems.append(f"worker {info.name} is gone and still holds {jobs}")
    return problems, f"{alive} at work"


def _handlers(app: App) -> tuple[list[str], str]:
    """The directories that handlers may be imported from are there."""
    problems = []
    for name in app.settings["handlers-path"]:
        path = app.home.path.parent / name
        if not path.is_dir():
            problems.append(f"handlers-path: {path} is no directory")
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
