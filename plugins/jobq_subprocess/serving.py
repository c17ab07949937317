"""What becomes of the attempts that warm children have: what is heard of them, their turns, stops, deaths, ends.

Used by the listening thread alone, but for what says otherwise. What takes time, ending a tree, is given to a thread of
its own, and the child with it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jobq.executor import Kind, Outcome
from jobq_subprocess import outcomes
from jobq_subprocess.burial import Burial, end_leftovers
from jobq_subprocess.protocol import PROGRESS, READY, Answer, progress
from jobq_subprocess.supervision import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq_subprocess.ahead import Means
    from jobq_subprocess.regions import Regions
    from jobq_subprocess.roster import Roster
    from jobq_subprocess.supervision import Surroundings
    from jobq_subprocess.threads import Threads
    from jobq_subprocess.warm import HandlerRun, WarmChild

TAKEN_BACK = Outcome(kind=Kind.RELEASED, reason="handed back before it began")


class Serving:
    """Decides for each attempt when it begins, is over, is taken back, and what its child does next.

    Args:
        threads: where trees are ended.
        roster: who has what.
        means: how long handlers take; noted here.
        regions: who notes where; freed here.
        most_jobs: after so many attempts a child is replaced.
        post: has the listening thread do something.
        ignore: has it listen to a child no more.

    Attributes:
        runs: the attempts whose end was not told.
    """

    def __init__(
        self,
        around: Surroundings,
        threads: Threads,
        roster: Roster,
        means: Means,
        regions: Regions,
        *,
        most_jobs: int,
        post: Callable[[Callable[[], None]], None],
        ignore: Callable[[WarmChild], None],
    ) -> None:
        self._around, self._threads, self._roster, self._means = around, threads, roster, means
        self._regions, self._most_jobs, self._post, self._ignore = regions, most_jobs, post, ignore
        self._told: list[tuple[HandlerRun, Outcome | None]] = []
        self.runs: set[HandlerRun] = set()

    def expect(self, run: HandlerRun) -> None:
        """An attempt is about to be handed to a child: its end will be told. Called by the thread that hands it."""
        self.runs.add(run)

    def forget(self, run: HandlerRun) -> None:
        """It was not handed to any. Called by the same thread."""
        self.runs.remove(run)

    def hear(self, child: WarmChild) -> None:
        """Take in what it says."""
        if not child.listened:
            return
        lines, more = child.hear()
        self._take_in(child, lines)
        child.attribute()
        if not more and child.listened:
            self.died(child)

    def _take_in(self, child: WarmChild, lines: list[bytes]) -> None:
        for line, following in zip(lines, (*lines[1:], b""), strict=False):
            run = child.run
            if line == READY:
                child.ready = True
                if run is not None:
                    self._roster.begin(run)
            elif run is not None and run.ending:
                continue
            elif not line.startswith(PROGRESS):
                self._heard(child, run, Answer(line))
            elif run is None:
                continue
            elif not following.startswith(PROGRESS) and (told := progress(line)) is not None:  # the last of many
                run.attempt.progress(told)

    def _heard(self, child: WarmChild, run: HandlerRun | None, answer: Answer) -> None:
        if not answer.sound:
            self.bury(child, answer=answer)
        elif run is not None and answer.key == run.key:
            self._answered(child, run, answer)
        elif answer.waits and answer.key == child.answered:  # before, the handler itself had answered with its key
            child.go_on()

    def _answered(self, child: WarmChild, run: HandlerRun, answer: Answer) -> None:
        self._roster.is_over(run)
        child.answered = answer.key
        if answer.waits:
            child.drain()
            child.attribute()
        if answer.left:
            run.ending = True
            done = partial(self._done, child, run, answer)
            self._threads.hand(partial(end_leftovers, self._around, child, run), partial(self._post, done))
        else:
            self._done(child, run, answer)

    def _done(self, child: WarmChild, run: HandlerRun, answer: Answer) -> None:
        """An attempt is over, and its child may have the next one."""
        if run.ending:  # it has taken a while; more may have been printed
            child.drain()
            child.attribute()
        if child.unclean:
            self.bury(child, answer=answer)
            return
        self._means.note(run.attempt.job.handler or "", answer.seconds)
        child.jobs += 1
        worn = child.mute or answer.retire or child.jobs >= self._most_jobs or not child.listened
        if worn:
            self.take_back(child)
        if worn and not child.ahead:
            child.run = None
            self.bury(child)
        else:
            self._go_on(child)
            if answer.waits:
                child.go_on()
        self.end(run, answer.outcome(run.attempt.output.tail() if answer.waits else "", run.started_at))

    def _go_on(self, child: WarmChild) -> None:
        """Its next attempt begins, or it has none."""
        run = self._roster.next(child)
        if run is None:
            return
        self._told.append((run, None))
        if run.request.kill_at is not None:  # it was asked to stop when it had been taken already
            self._post(partial(self.stop, run))

    def take_all_back(self) -> None:
        """Take back everything that was sent ahead and has not begun."""
        for child in self._roster.children:
            self.take_back(child)

    def take_back(self, child: WarmChild) -> None:
        """Take back what a child was sent ahead and has not begun; the attempts are over."""
        taken = self._roster.take_back(child)
        if child.run is None and child.ahead:
            self._go_on(child)
        for run in taken:
            self.end(run, TAKEN_BACK)

    def died(self, child: WarmChild) -> None:
        """A child is gone, or has closed its sockets and is as good as gone."""
        self._settle(child)
        if not child.listened:
            return
        run = child.run
        if run is not None and run.ending:  # its leftovers are being ended; `_done` sees to the child
            self._ignore(child)
        else:
            self.bury(child)

    def stop(self, run: HandlerRun) -> None:
        """End an attempt whose stop was asked for."""
        if run.child is not None and not run.over:
            self.end_now(run)

    def end_now(self, run: HandlerRun, *, timed_out: bool = False) -> None:
        """End an attempt before its time; one that was sent ahead is taken back, if it still can be."""
        child = run.child
        if child is None or run.ending:
            return
        self._settle(child)
        if child.run is run and not run.ending:
            self.bury(child, timed_out=timed_out)

    def _settle(self, child: WarmChild) -> None:
        """See to it that nothing more begins in a child, and hear what has ended: then what it runs is known."""
        self.take_back(child)
        if child.listened:
            self._take_in(child, child.hear()[0])

    def bury(
        self,
        child: WarmChild,
        *,
        timed_out: bool = False,
        answer: Answer | None = None,
        fault: Exception | None = None,
    ) -> None:
        """End a child, and the attempt it has with it; the rest as `Burial` takes it."""
        if not self._roster.remove(child):
            return
        self._ignore(child)
        self.take_back(child)
        if child.run is not None:
            child.run.ending = True
        burial = Burial(self._around, child, timed_out=timed_out, answer=answer, fault=fault)
        self._threads.hand(burial.run, partial(self._post, partial(self._buried, child, burial)))

    def _buried(self, child: WarmChild, burial: Burial) -> None:
        self._regions.free(child.region)
        for run, outcome in burial.outcomes:
            self.end(run, TAKEN_BACK if outcome is None else outcome)

    def end(self, run: HandlerRun, outcome: Outcome) -> None:
        """Note the end of an attempt, to be told when everything else of this step is done. It ends once."""
        if run.over:
            return
        run.over = True
        run.attempt.output.close()
        self._roster.is_over(run)
        self._told.append((run, outcome))

    def tell(self) -> None:
        """Tell of what has begun and ended since the last time."""
        told, self._told = self._told, []
        for run, outcome in told:
            if outcome is not None:
                self.runs.discard(run)
                run.ended(outcome)
            elif run.started is not None and run.child is not None:
                run.started(run.child.slot)

    def give_up(self, error: Exception) -> None:
        """Kill all children, and their attempts with them, since what they have said may be lost after this fault."""
        self._roster.forget_deadlines()
        for child in tuple(self._roster.children):
            if child.run is None or not child.run.ending:
                self.bury(child, fault=error)
        for run in tuple(self.runs):
            run.request.stop(NOW)

    def end_waiting(self, error: Exception) -> None:
        """End what no child has; a fault may have lost what would have started one for it."""
        for run in tuple(self.runs):
            if run.child is None:
                self.end(run, outcomes.of_fault(error))
