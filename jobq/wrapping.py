"""What plugins do around every attempt, in the process that executes it (`jobq_wrappers`)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jobq.errors import described
from jobq.executor import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from jobq.executor import Outcome
    from jobq.job import Job
    from jobq.providers import Context, Provider
    from jobq.settings import Settings


class AttemptFailed(Exception):
    """What the wrappers of a command are left with where it did not succeed; its text is the reason.

    Attributes:
        outcome: how the attempt ended.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason or outcome.kind.value)
        self.outcome = outcome


class AttemptWrapper(ABC):
    """Something that is done before and after every attempt: a span, a timer, a connection's check.

    One object serves a whole process, from several threads at once where commands run.
    """

    @abstractmethod
    def around(self, job: Job) -> AbstractContextManager[Mapping[str, str] | None]:
        """What is entered before an attempt of this job, and left after it, in the same thread.

        Of a handler: in its child process, around the call (an async handler runs inside, with the same context
        variables); it is left with what the handler raised, `jobq.handlers.Snoozed` and `Failed` too. Of a command:
        in the worker; what entering gives is added to the command's environment; it is left with `AttemptFailed`
        unless the command succeeded. An attempt that is killed with its process (a timeout, a cancel, a crash) leaves
        nothing. What this raises is reported and changes nothing, nor does an exception that it swallows.
        """


class Wrapping:
    """The wrappers of a process.

    Args:
        providers: makers of wrappers, each with the name to report it by.
        settings, context: what they are made with.
        warn: hears of one that fails.
    """

    def __init__(
        self,
        providers: Sequence[tuple[str, Provider[AttemptWrapper]]],
        settings: Settings,
        context: Context,
        warn: Callable[[str], None],
    ) -> None:
        self._providers, self._settings, self._context, self._warn = providers, settings, context, warn
        self._wrappers: list[tuple[str, AttemptWrapper]] | None = None

    def make(self) -> None:
        """Make them, if they are not yet, in one thread before any attempt. One that fails is reported and left out."""
        if self._wrappers is not None:
            return
        wrappers = []
        for name, provider in self._providers:
            try:
                wrappers.append((name, provider.make(self._settings, self._context)))
            except (Exception, SystemExit) as error:
                self._tell(name, error)
        self._wrappers = wrappers

    def enter(self, job: Job) -> Entered:
        """Enter all of them, which were made, for an attempt of this job."""
        entered = Entered(self._tell)
        for name, wrapper in self._wrappers or ():
            try:
                manager = wrapper.around(job)
                environment = manager.__enter__()
            except (Exception, SystemExit) as error:
                self._tell(name, error)
            else:
                entered.add(name, manager, environment)
        return entered

    def _tell(self, name: str, error: BaseException) -> None:
        self._warn(f"{name} failed: {described(error)}")


class Entered:
    """The wrappers that an attempt is in.

    Attributes:
        environment: what they add to that of a command.
    """

    def __init__(self, tell: Callable[[str, BaseException], None]) -> None:
        self._tell = tell
        self._managers: list[tuple[str, AbstractContextManager[Mapping[str, str] | None]]] = []
        self.environment: dict[str, str] = {}

    def add(
        self,
        name: str,
        manager: AbstractContextManager[Mapping[str, str] | None],
        environment: Mapping[str, str] | None,
    ) -> None:
        """One was entered."""
        self._managers.append((name, manager))
        try:
            self.environment |= _checked(environment or {})
        except Exception as error:
            self._tell(name, error)

    def ended(self, outcome: Outcome) -> None:
        """Leave all of them as a command that ended so."""
        self.leave(None if outcome.kind is Kind.SUCCESS else AttemptFailed(outcome))

    def leave(self, error: BaseException | None) -> None:
        """Leave all of them, the last one entered first; `error` is what ended the attempt."""
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        while self._managers:
            name, manager = self._managers.pop()
            try:
                manager.__exit__(kind, error, trace)
            except (Exception, SystemExit) as other:
                if other is not error:
                    self._tell(name, other)


def _checked(environment: Mapping[str, str]) -> dict[str, str]:
    """What a process can be started with.

    Raises:
        ValueError: it is nothing of that kind.
    """
    for name, value in environment.items():
        if not (isinstance(name, str) and isinstance(value, str) and name) or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be in an environment")
    return dict(environment)
