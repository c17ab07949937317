"""Where cgroups are: what the kernel tells of their mounts and of this process's place in them (cgroups(7))."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq_subprocess.outcomes import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Iterator

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy.

    Attributes:
        point: where it is mounted.
        root: which cgroup of the hierarchy stands there.
        controllers: what it was mounted with (cgroup v1); None for the unified hierarchy (cgroup v2).
    """

    point: str
    root: str
    controllers: frozenset[str] | None


def mounts(mountinfo: str) -> Iterator[Mount]:
    """The hierarchies in a text like that of /proc/self/mountinfo (proc_pid_mountinfo(5))."""
    for line in mountinfo.splitlines():
        place, found, filesystem = line.partition(" - ")
        fields, kind = place.split(" "), filesystem.split(" ")
        if not found or len(fields) < 6 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        controllers = None if kind[0] == "cgroup2" else frozenset(kind[2].split(","))
        yield Mount(_unescaped(fields[4]), _unescaped(fields[3]), controllers)


def place(mountinfo: str, cgroup: str, controller: str | None = None) -> str | None:
    """The directory of a process's cgroup, or None where it cannot be reached.

    Args:
        mountinfo: a text like that of /proc/self/mountinfo.
        cgroup: a text like that of /proc/self/cgroup.
        controller: in whose hierarchy (cgroup v1); None: in the unified one.
    """
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0") if controller is None else (controller in controllers.split(",")):
            break
    else:
        return None
    if path.startswith("/.."):  # outside of what this namespace shows
        return None
    for mount in mounts(mountinfo):
        here = mount.controllers is None if controller is None else controller in (mount.controllers or ())
        below = os.path.relpath(path, mount.root)
        if here and not below.startswith(".."):  # else what stands there is not above this process's cgroup
            return os.path.normpath(os.path.join(mount.point, below))
    return None


def own(controller: str | None = None) -> str | None:
    """The directory of this process's cgroup, in the unified hierarchy or in that of a `controller` of cgroup v1.

    None where there is none, where it cannot be reached, and on systems without cgroups.

    Raises:
        OSError: this machine has no room to look.
    """
    try:
        return place(_read("/proc/self/mountinfo"), _read("/proc/self/cgroup"), controller)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        return None


def points() -> list[str]:
    """Where the unified hierarchy is mounted.

    Raises:
        OSError: this machine has no room to look.
    """
    try:
        return [mount.point for mount in mounts(_read("/proc/self/mountinfo")) if mount.controllers is None]
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        return []


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
