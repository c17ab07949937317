"""What is installed: the plugins and handlers that distributions offer, found with nothing imported."""

from __future__ import annotations

import os

from jobq.errors import described
from jobq.records import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import Distribution, EntryPoint

    from jobq.handlers import Handler
    from jobq.providers import Option

GROUP = "jobq"
HANDLER_GROUP = "jobq.handlers"
_POINTS = "entry_points.txt"


@record(slots=True)
class Plugin:
    """One plugin that is there, and what is known of it.

    Attributes:
        name: its entry point's name.
        target: the entry point's value, or the path of a file; empty for a distribution whose list of entry points
            cannot be read.
        distribution, version: what installed it; empty for a file.
        status: `ok`, `failed` or `blocked`.
        error: why it failed.
        hooks: the hooks it implements.
        offers: what it offers: names by `store executor backoff wrapper command`.
        summaries: what each of these is, one line by `KIND NAME`.
        options: its settings.
        remarks: what is odd about it but keeps nobody from using it, one line each.
        import_ms: how long its import took when it was last imported.
        origin: its module's file.
        fault: what was raised when it failed; not remembered.
    """

    name: str
    target: str
    distribution: str
    version: str
    status: str = "ok"
    error: str = ""
    hooks: tuple[str, ...] = ()
    offers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    summaries: dict[str, str] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    remarks: tuple[str, ...] = ()
    import_ms: float = 0.0
    origin: str = ""
    fault: BaseException | None = None

    @property
    def title(self) -> str:
        """The name with where it comes from: `NAME (DIST VERSION)`."""
        source = f"{self.distribution} {self.version}".strip() or self.target
        return f"{self.name} ({source})"


@record(frozen=True)
class Scan:
    """What is installed: the plugins and the handlers, sorted by name and distribution."""

    plugins: Sequence[Plugin]
    handlers: Sequence[Handler]


def scan_installed() -> Scan:
    """Every entry point of the two groups, with nothing imported.

    A distribution whose metadata is broken costs nobody else anything: where its entry points cannot be read, it
    stands among the plugins as a failed one of its own name.
    """
    from jobq.handlers import Handler

    plugins: list[Plugin] = []
    handlers: list[Handler] = []
    for distribution in _distributions():
        try:
            points = _entry_points(distribution)
        except Exception as error:
            name, version, _ = _identity(distribution)
            why = f"its {_POINTS} cannot be read, so that nobody knows what it offers: {described(error)}"
            plugins.append(Plugin(name, "", name, version, "failed", why, fault=error))
            continue
        if points:
            name, version, remarks = _identity(distribution)
            for point in points:
                if point.group == GROUP:
                    plugins.append(Plugin(point.name, point.value, name, version, remarks=remarks))
                else:
                    source = f"{name} {version}".strip()
                    handlers.append(Handler(name=point.name, target=point.value, distribution=source))
    plugins.sort(key=lambda plugin: (plugin.name, plugin.distribution))
    handlers.sort(key=lambda handler: (handler.name, handler.distribution))
    return Scan(plugins, handlers)


def is_file(name: str) -> bool:
    """Whether `-p name` means a file, not an installed plugin."""
    return name.endswith(".py") or os.sep in name


def plugin_of_file(path: str) -> Plugin:
    """The plugin that `-p path` means; nothing is imported."""
    return Plugin(os.path.basename(path).removesuffix(".py"), path, "", "")


def _distributions() -> Iterator[Distribution]:
    """Each once: of two that have one name the first on `sys.path`, as it is what would be imported."""
    import re
    from importlib.metadata import distributions

    seen = set()
    for distribution in distributions():
        name = re.sub(r"[-_.]+", "-", _directory(distribution).partition("-")[0]).lower() or _identity(distribution)[0]
        if name not in seen:
            seen.add(name)
            yield distribution


def _entry_points(distribution: Distribution) -> list[EntryPoint]:
    """Those of the two groups.

    Raises:
        Exception: the file that lists them is there and cannot be read.
    """
    points = distribution.entry_points
    if not points:  # also where what is there cannot be opened: that it exists is all that tells it from none
        path = os.path.join(str(getattr(distribution, "_path", "")), _POINTS)
        if os.path.lexists(path):
            with open(path, encoding="utf-8") as file:
                file.read()
    return [point for point in points if point.group in (GROUP, HANDLER_GROUP)]


def _identity(distribution: Distribution) -> tuple[str, str, tuple[str, ...]]:
    """Name and version, from the directory's name where the metadata do not tell; and what is odd about that."""
    name, version, *_ = [*_directory(distribution).split("-"), ""]
    name = name or "unknown"
    try:
        metadata = distribution.metadata
        told_name, told_version = ((metadata.get_all(key) or [""])[0] for key in ("Name", "Version"))
    except Exception as error:
        return name, version, (f"its metadata cannot be read: {described(error)}",)
    remarks = () if told_name and told_version else ("its metadata say no name or no version",)
    return str(told_name or name), str(told_version or version), remarks


def _directory(distribution: Distribution) -> str:
    """`NAME-VERSION`, as the directory of its metadata is called; empty where it is in none."""
    # There is no public way to ask where a distribution is; `importlib.metadata` itself tells them apart by this.
    base = os.path.basename(str(getattr(distribution, "_path", "")))
    stem, suffix = os.path.splitext(base)
    return stem if suffix in (".dist-info", ".egg-info") else ""
