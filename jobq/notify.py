"""Tells notifiers what happened: in a thread of its own, each isolated from the next, never in a job's way."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque

from jobq.errors import described
from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.events import Event
    from jobq.settings import Settings

QUEUE_LIMIT = 10_000
SLOW_SECONDS = 5.0
CLOSE_SECONDS = 2.0


@record(frozen=True, slots=True)
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
        self._calling: tuple[Notifier, float, Event, Sequence[Notifier]] | None = None
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
                busy = self._calling[0] if self._calling is not None else None
                left = len(self._events) + (busy is not None)
            if thread.is_alive() and left:
                whose = f"{busy.name} was still busy" if busy is not None else "notifiers were behind"
                self._tell(f"{whose} at the end: {left} event{'s' if left > 1 else ''} not delivered in time")

    def _tell(self, message: str) -> None:
        """Warn; a listener that cannot be told must cost neither events nor the one who sent them."""
        with contextlib.suppress(Exception):
            self._warn(message)

    def _start(self, event: Event | None = None, todo: Sequence[Notifier] = ()) -> None:
        self._thread = threading.Thread(target=self._deliver, args=(event, todo), name="jobq-notify", daemon=True)
        self._thread.start()

    def _abandon_if_slow(self) -> None:
        """Give up on a notifier that does not return, and on the thread it holds; another one takes over."""
        if self._calling is None or time.monotonic() - self._calling[1] < SLOW_SECONDS:
            return
        slow, _, event, others = self._calling
        self._calling = None
        self._notifiers.remove(slow)
        self._tell(f"{slow.name} took over {SLOW_SECONDS:g} s for an event and is no longer told")
        self._start(event, others)

    def _deliver(self, event: Event | None, todo: Sequence[Notifier]) -> None:
        """Tell `todo` of the event, then everybody of those in the queue, until all are told and it is closed."""
        me = threading.current_thread()
        while True:
            if event is None:
                with self._changed:
                    while not self._events and not self._closing:
                        self._dropped = 0  # only once all is delivered: it is one trouble, told once
                        self._changed.wait()
                    if not self._events:
                        return
                    event, todo = self._events.popleft(), list(self._notifiers)
            for number, notifier in enumerate(todo, 1):
                with self._changed:
                    self._calling = (notifier, time.monotonic(), event, todo[number:])
                try:
                    notifier.call(event, self._settings)
                except BaseException as error:  # no signal is raised in this thread: all of it is the notifier's
                    self._tell(f"{notifier.name} failed on {event.kind.value}: {described(error)}")
                with self._changed:
                    if self._thread is not me:
                        return
                    self._calling = None
            event = None
