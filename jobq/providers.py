"""The records that plugins hand over: a named maker of a store, an executor or a backoff, and a setting."""

from __future__ import annotations

from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any, Generic, TypeVar

    from jobq.clock import Clock
    from jobq.handlers import Handler
    from jobq.settings import Settings
    from jobq.wrapping import Wrapping

    T = TypeVar("T")
else:
    T = None

    class Generic:
        """At run time a provider of one thing is one like any other."""

        def __class_getitem__(cls, thing: object) -> type:
            del thing
            return cls


@record(frozen=True, kw_only=True)
class Context:
    """What a provider is made in.

    Attributes:
        directory: the home directory; it exists, is private, and may be written to.
        url: for a store: what stands behind the scheme in its URL ("" where nothing does).
        clock: the clock to use.
        handlers: the installed handlers by name; fixed for the life of the process.
        warn: tells the user one sentence; for trouble that is no error.
        asked: what `-p` said, for an executor's own processes that load plugins: `jobq.app.App(plugins=…)`.
        wrapping: what an executor does around each attempt; None for whom that does not concern.
    """

    directory: str
    url: str
    clock: Clock
    handlers: Mapping[str, Handler]
    warn: Callable[[str], None]
    asked: tuple[str, ...] = ()
    wrapping: Wrapping | None = None

    @property
    def home(self) -> Path:
        """The home directory, as a path."""
        from pathlib import Path  # an enqueue does without it

        return Path(self.directory)


@record(frozen=True, kw_only=True)
class Provider(Generic[T]):
    """One thing that a plugin can make.

    Attributes:
        name: what settings and URLs say: `json`, `postgresql`; it matches `[a-z][a-z0-9_-]*`.
        summary: one line for `jobq plugins`.
        make: makes it; called when one is needed: at most once in a process, but an executor for each worker. Heavy
            imports belong inside.
    """

    name: str
    summary: str
    make: Callable[[Settings, Context], T]


@record(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting.

    Attributes:
        name: with hyphens; a plugin's own stand in a table of its name: `log.file`.
        kind: `integer number boolean duration size text list`, the type of its value: int, float, bool,
            timedelta, int (bytes), str, tuple of str.
        default: the value where nobody sets one; None where the setting may be unset.
        help: one sentence.
        live: whether running processes take a new value from the configuration file.
        least, most: the smallest and the largest value allowed, of what is a number, a size or a duration, in the
            unit written (bytes, seconds); None for no bound but that of the kind.
        aliases: other names for it.
        choices: the only values there are, for one of kind `text`; any where empty.
        activates: a notifier with such settings is told of nothing while none of them has a value.
    """

    name: str
    kind: str
    default: Any
    help: str
    live: bool = False
    least: float | None = None
    most: float | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    activates: bool = False
