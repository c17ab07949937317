"""Tells notifiers what happened: in a thread of its own, each isolated from the next, never in a job's way."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.events import Event
    from jobq.settings import Settings

QUEUE_LIMIT = 10_000
SLOW_SECONDS = 5.0
CLOSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Notifier:
    """One plugin's `jobq_notify`, and the name to report it by."""

    name: str
    call: Callable[[Event, Settings], None]


class Notifications:
    """Delivers events to notifiers, at most once, in order. Delivery is never waited for, but in `close`.

    Args:
        notifiers: whom to tell.
        settings: handed to each.
        warn: hears of one that failed, is too slow, or of events that were dropped.
    """

    def __init__(self, notifiers: Sequence[Notifier], settings: Settings, warn: Callable[[str], None]) -> None:
        self._notifiers = list(notifiers)
        self._settings = settings
        self._warn = warn
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._calling: tuple[Notifier, float] | None = None
        self._dropped = 0
        self._closing = False

    def __bool__(self) -> bool:
        """Whether anybody listens; where nobody does, events need not even be made."""
        return bool(self._notifiers)

    def send(self, event: Event) -> None:
        """Hand an event over and return at once."""
        if not self._notifiers:
            return
        with self._changed:
            if len(self._events) >= QUEUE_LIMIT:
                if not self._dropped:
                    self._tell(f"notifiers are behind by {QUEUE_LIMIT} events; further ones are dropped")
                self._dropped += 1
            else:
                self._events.append(event)
            self._abandon_if_slow()
            if self._thread is None:
                self._start()
            self._changed.notify()

    def close(self) -> None:
        """Wait for what is under way, at most 2 s."""
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)
            with self._changed:
                left = len(self._events) + (self._calling is not None)
            if thread.is_alive() and left:
                self._tell(f"{left} events were not delivered to notifiers in time")

    def _tell(self, message: str) -> None:
        """Warn; a listener that cannot be told must cost neither events nor the one who sent them."""
        with contextlib.suppress(Exception):
            self._warn(message)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._deliver, name="jobq-notify", daemon=True)
        self._thread.start()

    def _abandon_if_slow(self) -> None:
        """Give up on a notifier that does not return, and on the thread it holds; another one takes over."""
        if self._calling is None or time.monotonic() - self._calling[1] < SLOW_SECONDS:
            return
        slow, self._calling = self._calling[0], None
        self._notifiers.remove(slow)
        self._tell(f"{slow.name} took over {SLOW_SECONDS:g} s for an event and is no longer told")
        self._start()

    def _deliver(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                while not self._events and not self._closing:
                    self._dropped = 0  # only once all is delivered: it is one trouble, told once
                    self._changed.wait()
                if not self._events:
                    return
                event = self._events.popleft()
                todo = list(self._notifiers)
            for notifier in todo:
                with self._changed:
                    self._calling = (notifier, time.monotonic())
                try:
                    notifier.call(event, self._settings)
                except BaseException as error:  # no signal is raised in this thread: all of it is the notifier's
                    self._tell(f"{notifier.name} failed on {event.kind.value}: {_described(error)}")
                with self._changed:
                    if self._thread is not me:
                        return
                    self._calling = None


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its own text fails too
        return type(error).__name__
