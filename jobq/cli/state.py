"""What a command works with: what stood before or after its name, and the app made of it."""

from __future__ import annotations

import sys

from jobq.cli.streams import talk
from jobq.errors import traceback_of
from jobq.light import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobq.app import App
    from jobq.queue import Queue


class Globals:
    """What stood before or after the command: `--home --store -p --quiet --debug`; and the app made of it."""

    def __init__(self) -> None:
        self.home: str | None = None
        self.store: str | None = None
        self.plugins: list[str] = []
        self.flags: dict[str, str] = {}
        self.quiet = False
        self.debug = False
        self.plugin = ""  # the one whose command runs
        self._home_named = False

    @cached_property
    def app(self) -> App:
        """The app; made when it is first needed."""
        from jobq.app import App

        flags = {} if self.store is None else {"store": self.store}
        plugins = self.plugins
        return App(home=self.home, flags=flags | self.flags, plugins=plugins, warn=self.warn, debug=self.debug)

    @cached_property
    def queue(self) -> Queue:
        """What the commands work with, of the home and the store that were asked for."""
        from jobq.queue import Queue

        self.name_home()
        return Queue(self.app)

    def name_home(self) -> None:
        """Say which home is used, once, where it is not the default one."""
        if self.app.home.source != "default" and not self._home_named and not self.quiet:
            self._home_named = True
            there = "" if self.app.home_exists else " (nothing is there yet)"
            self.note(f"home: {self.app.home.directory}{there}")

    def warn(self, message: str) -> None:
        """Tell of trouble that is no error; with `--debug` also where it came from, if something was raised."""
        talk(f"jobq: {message}")
        error = sys.exception()
        if self.debug and error is not None:
            talk(traceback_of(error))

    def note(self, message: str) -> None:
        """Talk, unless `--quiet`."""
        if not self.quiet:
            talk(message)

    @property
    def has_app(self) -> bool:
        """Whether an app was made."""
        return "app" in self.__dict__

    def close(self) -> None:
        """Free what was made."""
        if self.has_app:
            self.app.close()
