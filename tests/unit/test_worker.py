"""The worker on an injected clock, with a store in memory and an executor that runs a script: no disk, no sleeping."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from jobq.app import App
from jobq.claiming import Turns
from jobq.draining import KILL, NOW
from jobq.errors import StoreUnavailable, StoreUnreadable
from jobq.executor import Kind, Outcome, Recovered
from jobq.job import State
from jobq.progress import Progress
from jobq.queue import Queue
from jobq.recovery import Recovery
from jobq.testing import START, FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, make_info
from jobq.testing.memory import MemoryPresence
from jobq.worker import Worker

FAILURE = Outcome(kind=Kind.FAILURE, reason="exit code 1", exit_code=1)
SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)
NO_JITTER = {"backoff_jitter": "false", "backoff_initial": "0.1"}


class Bench:
    """An app with everything under control."""

    def __init__(self, tmp_path, script=lambda job: SUCCESS, *, storage=None, stopped=None, **flags):
        self.clock = FakeClock()
        self.storage = storage or MemoryStorage()
        self.executor = ScriptedExecutor(script, stopped=stopped)
        self.notes = []
        self.app = App(
            home=str(tmp_path / "home"),
            flags=flags,
            environ={},
            clock=self.clock,
            warn=self.notes.append,
            store=MemoryStore(self.storage),
            executor=self.executor,
        )
        self.queue = Queue(self.app)

    def worker(self, **arguments):
        arguments.setdefault("until", "empty")
        arguments.setdefault("note", self.notes.append)
        return Worker(self.app, **arguments)

    def enqueue(self, job_id=None, **fields):
        if job_id is not None:
            fields["id"] = job_id
        if "handler" not in fields:
            fields.setdefault("command", "true")
        return self.queue.enqueue(allow_unknown_handler=True, **fields)


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(*args, **kwargs):
        made.append(Bench(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.app.close()


def test_a_job_that_succeeds_at_once_completes_with_attempts_0(bench):
    b = bench()
    job = b.enqueue()
    summary = b.worker().run()
    after = b.queue.get(job.id)
    assert (after.state, after.attempts, after.run, after.exit_code) == (State.COMPLETED, 0, 1, 0)
    assert summary.completed == 1


def test_three_attempts_without_jitter_wait_a_tenth_then_two_then_dead(bench):
    b = bench(lambda job: FAILURE, **NO_JITTER)
    job = b.enqueue(max_attempts=3)
    b.worker().run()
    after = b.queue.get(job.id)
    starts = [(run.started - START).total_seconds() for run in after.history]
    assert starts == [0.0, 0.1, pytest.approx(0.3)]
    assert (after.state, after.attempts) == (State.DEAD, 3)
    assert after.last_error == "exit code 1"


def test_backoff_settings_are_read_live_and_max_attempts_was_captured(bench, tmp_path):
    b = bench(lambda job: FAILURE, backoff_jitter="false")
    b.app.create_home()
    config = tmp_path / "home" / "config.toml"

    def script(job):
        config.write_text(f"backoff-initial = {10 * (job.attempts + 1)}\nmax-attempts = 1\n")
        return FAILURE

    b.executor.script = script
    job = b.enqueue()
    assert job.max_attempts == 3
    b.worker().run()
    after = b.queue.get(job.id)
    starts = [(run.started - START).total_seconds() for run in after.history]
    assert starts == [0.0, 10.0, 50.0]
    assert after.attempts == 3


def test_an_invalid_config_keeps_the_last_good_values_and_is_told_once(bench, tmp_path):
    b = bench(lambda job: FAILURE, backoff_jitter="false")
    b.app.create_home()
    config = tmp_path / "home" / "config.toml"
    config.write_text("backoff-initial = 7\n")

    def script(job):
        config.write_text("backoff-initial = [not toml\n")
        return FAILURE

    b.executor.script = script
    job = b.enqueue(max_attempts=2)
    b.worker().run()
    starts = [(run.started - START).total_seconds() for run in b.queue.get(job.id).history]
    assert starts == [0.0, 7.0]
    assert len([note for note in b.notes if "last good values" in note]) == 1


def test_never_more_than_count_at_once_and_everything_pending_is_drained(bench):
    b = bench(lambda job: None)
    jobs = [b.enqueue() for _ in range(5)]
    most = []

    class EndingClock(FakeClock):
        def wait(self, wake, seconds):
            most.append(len(b.executor.running))
            for running in list(b.executor.running.values())[:1]:
                running.end(SUCCESS)
            return wake.clear()

    b.clock.__class__ = EndingClock
    summary = b.worker(count=2).run()
    assert max(most) == 2
    assert summary.completed == 5
    assert {b.queue.get(job.id).state for job in jobs} == {State.COMPLETED}


def test_slots_are_below_count_and_not_shared(bench):
    b = bench(lambda job: None)
    for _ in range(3):
        b.enqueue()

    class EndingClock(FakeClock):
        def wait(self, wake, seconds):
            slots = [running.attempt.slot for running in b.executor.running.values()]
            assert sorted(slots) == sorted(set(slots))
            assert all(0 <= slot < 2 for slot in slots)
            next(iter(b.executor.running.values())).end(SUCCESS)
            return wake.clear()

    b.clock.__class__ = EndingClock
    assert b.worker(count=2).run().completed == 3


def test_nothing_is_claimed_before_its_time_and_a_due_job_within_the_polling_interval(bench):
    b = bench()
    b.enqueue("later", delay=2.5)
    b.worker().run()
    (attempt,) = b.executor.started
    late = (attempt.job.started_at - START).total_seconds() - 2.5
    assert 0 <= late <= b.app.settings["poll-interval"].total_seconds()


def test_until_idle_leaves_what_is_not_due(bench):
    b = bench(lambda job: FAILURE)
    b.enqueue()
    b.enqueue(delay=1000)
    summary = b.worker(until="idle").run()
    assert (summary.failed, summary.left) == (1, 2)


def test_until_empty_leaves_what_is_due_after_a_day_and_paused_queues(bench):
    b = bench()
    b.enqueue(delay=25 * 3600)
    b.enqueue(queue="held")
    b.queue.pause("held")
    assert b.worker().run().left == 2


def test_until_empty_says_once_what_it_waits_for(bench):
    b = bench()
    b.enqueue(delay=19 * 3600)
    assert b.worker().run().completed == 1
    assert [note for note in b.notes if "waiting for" in note] == [b.notes[0]]
    assert b.notes[0].endswith(", in 19h")


def test_a_snooze_is_counted_as_one_and_not_as_handed_back(bench):
    outcomes = [Outcome(kind=Kind.RELEASED, reason="snoozed", delay=timedelta(seconds=5)), SUCCESS]
    b = bench(lambda job: outcomes.pop(0))
    b.enqueue()
    summary = b.worker().run()
    assert (summary.snoozed, summary.released, summary.completed) == (1, 0, 1)


def test_a_handler_that_is_not_installed_stays_and_delays_nothing(bench):
    b = bench()
    missing = b.enqueue(handler="missing", priority=10)
    done = b.enqueue()
    b.worker().run()
    assert b.queue.get(missing.id).state is State.PENDING
    assert b.queue.get(done.id).state is State.COMPLETED


def test_an_executor_that_raises_is_a_failed_attempt_not_the_workers_end(bench):
    b = bench()

    def script(job):
        raise RuntimeError("broken executor")

    b.executor.script = script
    job = b.enqueue(max_attempts=1)
    b.worker().run()
    after = b.queue.get(job.id)
    assert after.state is State.DEAD
    assert "broken executor" in after.last_error


def test_a_backoff_that_raises_is_named_and_the_default_formula_used(bench, monkeypatch):
    b = bench(lambda job: FAILURE, **NO_JITTER)
    from jobq_exponential.backoff import ExponentialBackoff

    def broken(self, **arguments):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(ExponentialBackoff, "delay", broken)
    job = b.enqueue(max_attempts=2)
    b.worker().run()
    starts = [(run.started - START).total_seconds() for run in b.queue.get(job.id).history]
    assert starts == [0.0, 0.1]
    assert any("backoff exponential" in note and "ZeroDivisionError" in note for note in b.notes)


def test_after_the_stop_nothing_is_claimed_and_the_running_job_finishes(bench):
    b = bench(lambda job: None)
    first, second = b.enqueue(), b.enqueue()
    worker = b.worker(until=None)

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            worker.stop()
            if first.id in b.executor.running and self.monotonic() > 100:
                b.executor.running[first.id].end(SUCCESS)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = StoppingClock
    summary = worker.run()
    assert b.queue.get(first.id).state is State.COMPLETED
    assert b.queue.get(second.id).state is State.PENDING
    assert not summary.forced
    assert len([note for note in b.notes if f"finishing 1 running job ({first.id})" in note]) >= 9


@pytest.mark.parametrize(
    ("level", "grace", "told"),
    [
        (NOW, timedelta(seconds=5), "ending 1 running job ({}), to be handed back; a third Ctrl-C kills them"),
        (KILL, timedelta(0), "killing 1 running job ({}), to be handed back"),
    ],
)
def test_stop_now_ends_jobs_and_hands_them_back_uncounted(bench, level, grace, told):
    b = bench(lambda job: None, stopped=Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM"))
    job = b.enqueue()
    worker = b.worker(until=None)
    graces = []

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            graces.extend(r.graces for r in b.executor.running.values())
            worker.stop(level)
            return wake.clear()

    b.clock.__class__ = StoppingClock
    summary = worker.run()
    after = b.queue.get(job.id)
    assert (after.state, after.attempts, after.losses, after.run) == (State.PENDING, 0, 0, 1)
    assert after.history[-1].outcome == "released"
    assert graces[0] == [grace]
    assert summary.forced
    assert summary.released == 1
    assert f"stopping: {told.format(job.id)}" in b.notes


def test_stop_grace_ends_a_drain_that_takes_longer(bench):
    b = bench(lambda job: None, stopped=Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM"), stop_grace="30")
    job = b.enqueue()
    worker = b.worker(until=None)
    worker_started = threading.Event()

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            worker_started.set()
            worker.stop()
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = StoppingClock
    summary = worker.run()
    assert worker_started.is_set()
    assert summary.forced
    assert b.queue.get(job.id).state is State.PENDING
    assert 30 <= b.clock.monotonic() < 32


def test_a_success_that_won_the_race_with_stop_now_stands(bench):
    b = bench(lambda job: None, stopped=SUCCESS)
    job = b.enqueue()
    worker = b.worker(until=None)

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            worker.stop(NOW)
            return wake.clear()

    b.clock.__class__ = StoppingClock
    worker.run()
    assert b.queue.get(job.id).state is State.COMPLETED


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Outcome(kind=Kind.SIGNAL, reason="signal SIGTERM"), State.CANCELLED), (SUCCESS, State.COMPLETED)],
)
def test_cancel_of_a_running_job_stops_it_and_a_success_stands(bench, outcome, state):
    b = bench(lambda job: None, stopped=outcome)
    job = b.enqueue(max_attempts=5)
    worker = b.worker()

    class CancellingClock(FakeClock):
        def wait(self, wake, seconds):
            if job.id in b.executor.running:
                assert b.queue.cancel(job.id).state is State.PROCESSING
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = CancellingClock
    summary = worker.run()
    after = b.queue.get(job.id)
    assert (after.state, after.attempts) == (state, 0)
    assert summary.cancelled == (state is State.CANCELLED)


def test_a_run_that_is_no_longer_the_workers_is_killed_and_discarded(bench):
    b = bench(lambda job: None, stopped=Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL"))
    job = b.enqueue()
    worker = b.worker()
    graces = []

    class StealingClock(FakeClock):
        def wait(self, wake, seconds):
            if running := b.executor.running.get(job.id):
                graces.append(running.graces)
                stored = b.queue.get(job.id)
                from jobq.job import Change

                taken = Change({"worker": None, "state": State.CANCELLED})
                b.app.store.change(stored, taken, now=self.now())
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = StealingClock
    summary = worker.run()
    assert b.queue.get(job.id).state is State.CANCELLED
    assert graces == [[timedelta(0)]]
    assert summary.discarded == 1


def test_a_worker_whose_membership_lapsed_ends_what_it_runs_and_claims_nothing(bench, monkeypatch):
    b = bench(lambda job: None, stopped=Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL"))
    first, second = b.enqueue(), b.enqueue(priority=-1)
    worker = b.worker(until=None)
    seen, lapsed = [], [False]
    monkeypatch.setattr(MemoryPresence, "lapsed", property(lambda presence: lapsed[0]))

    class LapsingClock(FakeClock):
        def wait(self, wake, seconds):
            seen.append((lapsed[0], sorted(b.executor.running), [run.graces for run in b.executor.running.values()]))
            if len(seen) == 1:
                lapsed[0] = True
            elif len(seen) == 4:
                lapsed[0] = False
            elif len(seen) == 6:
                worker.stop(KILL)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = LapsingClock
    worker.run()
    assert seen[0][1] == [first.id]
    assert [running for was, running, _ in seen if was][1:] == [[], []], "nothing is begun while it lasts"
    assert seen[5][1] == [first.id], "and again when it is over"
    after = b.queue.get(first.id)
    assert (after.attempts, after.losses, after.history[0].outcome) == (0, 0, "released")
    assert b.queue.get(second.id).run == 0
    assert len([note for note in b.notes if "has not heard of this worker" in note]) == 1


def lose(b, job_id, **info):
    """Let another worker claim the job and die."""
    store = MemoryStore(b.storage)
    from jobq.store import Wanted

    presence = store.join(make_info(**info))
    claimed = store.claim(presence, wanted=Wanted(), limit=1, now=b.clock.now())
    assert [claim.job.id for claim in claimed.claims] == [job_id]
    presence.die()
    return presence


def test_a_dead_workers_job_is_back_with_attempts_unchanged_and_losses_one_higher(bench):
    b = bench()
    job = b.enqueue()
    dead = lose(b, job.id)
    b.worker().run()
    after = b.queue.get(job.id)
    assert [worker.id for worker in b.executor.recovered] == [dead.id]
    assert (after.state, after.attempts, after.run) == (State.COMPLETED, 0, 2)
    assert [run.outcome for run in after.history] == ["lost", "completed"]
    assert b.app.store.lost(now=b.clock.now()) == []


@pytest.mark.parametrize("info", [{"boot_id": "another boot"}, {"state": "draining"}])
def test_a_reboot_and_a_death_while_draining_count_nothing(bench, info):
    b = bench()
    job = b.enqueue(delay=0)
    lose(b, job.id, **info)
    recovery = Recovery(b.app)
    assert recovery.settle() == ()
    after = b.queue.get(job.id)
    assert (after.state, after.losses, after.attempts) == (State.PENDING, 0, 0)


def test_three_losses_make_a_job_dead_with_the_reason_and_its_neighbours_complete(bench):
    b = bench()
    poison, neighbour = b.enqueue("poison", priority=9), b.enqueue("neighbour")
    for _ in range(3):
        lose(b, poison.id)
        Recovery(b.app).settle()
    b.worker().run()
    after = b.queue.get("poison")
    assert (after.state, after.losses, after.run) == (State.DEAD, 3, 3)
    assert "worker died" in after.last_error
    assert b.queue.get("neighbour").state is State.COMPLETED
    assert neighbour.id not in {attempt.job.id for attempt in b.executor.started if attempt.job.id == "poison"}


def test_on_lost_dead_goes_to_the_dead_letters_instead_of_running_again(bench):
    b = bench()
    job = b.enqueue(on_lost="dead")
    lose(b, job.id)
    b.worker().run()
    after = b.queue.get(job.id)
    assert (after.state, after.run) == (State.DEAD, 1)
    assert "on_lost is dead" in after.last_error


def test_a_lost_run_whose_cancel_was_asked_for_is_cancelled(bench):
    b = bench()
    job = b.enqueue()
    lose(b, job.id)
    b.queue.cancel(job.id)
    b.worker().run()
    assert b.queue.get(job.id).state is State.CANCELLED
    assert b.executor.started == []


def test_while_something_of_a_dead_worker_may_live_its_job_is_not_run_again(bench):
    b = bench()
    b.executor.recovery = Recovered(clean=False, why="pid 4711 cannot be ended")
    job = b.enqueue()
    lose(b, job.id)
    summary = b.worker().run()
    assert b.queue.get(job.id).state is State.PROCESSING
    assert b.executor.started == []
    assert summary.completed == 0
    (held,) = b.queue.recover()
    assert ([one.id for one in held.jobs], held.why) == ([job.id], "pid 4711 cannot be ended")


def test_a_job_with_two_losses_runs_alone(bench):
    b = bench(lambda job: None)
    b.enqueue("risky", priority=9)
    for _ in range(2):
        lose(b, "risky")
        Recovery(b.app).settle()
    b.enqueue("one")
    b.enqueue("two")
    together = []

    class EndingClock(FakeClock):
        def wait(self, wake, seconds):
            together.append(set(b.executor.running))
            for running in list(b.executor.running.values()):
                running.end(SUCCESS)
            self.advance(0.01)
            return wake.clear()

    b.clock.__class__ = EndingClock
    b.worker(count=3).run()
    assert {"risky"} in together
    assert all(names == {"risky"} or "risky" not in names for names in together)
    assert {"one", "two"} in together


class FullStore(MemoryStore):
    """Refuses to record while the disk is full."""

    full = False
    refusals = 0

    def claim(self, worker, *, wanted, limit, now, ended=()):
        if self.full and ended:
            type(self).refusals += 1
            raise StoreUnavailable("no space left on device")
        return super().claim(worker, wanted=wanted, limit=limit, now=now, ended=ended)


def test_an_outcome_that_cannot_be_recorded_is_kept_and_the_job_not_run_again(bench):
    b = bench(lambda job: None)
    store = FullStore(b.storage)
    b.app.store = store
    job, other = b.enqueue(), b.enqueue()

    class FullClock(FakeClock):
        def wait(self, wake, seconds):
            for running in list(b.executor.running.values()):
                store.full = True
                running.end(SUCCESS)
            if self.monotonic() > 60:
                store.full = False
            self.advance(max(seconds, 0.001))
            return wake.clear()

    b.clock.__class__ = FullClock
    b.worker().run()
    assert [attempt.job.id for attempt in b.executor.started] == [job.id, other.id]
    assert b.queue.get(job.id).state is State.COMPLETED
    assert b.queue.get(job.id).run == 1
    assert 3 < FullStore.refusals < 30
    assert any("no space left" in note for note in b.notes)
    assert any("works again" in note for note in b.notes)


def test_retention_removes_old_finished_jobs_and_their_output(bench, tmp_path):
    b = bench()
    job = b.enqueue()
    b.executor.script = lambda _: lambda attempt: attempt.output.write(b"hello\n") or SUCCESS
    b.worker().run()
    kept = [path for path in (tmp_path / "home" / "output").rglob("*") if path.is_file()]
    assert len(kept) == 1
    b.clock.advance(8 * 86400)
    b.worker().run()
    assert list(b.queue.find()) == []
    assert not kept[0].exists()
    assert job.id not in {found.id for found in b.queue.find()}


def test_a_count_below_one_is_refused(bench):
    from jobq.errors import InvalidInput

    b = bench()
    with pytest.raises(InvalidInput, match="at least 1"):
        b.queue.run_until_empty(concurrency=0)


def test_run_until_empty_answers_with_completed_and_dead(bench):
    b = bench(lambda job: FAILURE if job.id == "bad" else SUCCESS)
    b.enqueue("good")
    b.enqueue("bad", max_attempts=1)
    assert b.queue.run_until_empty(concurrency=2) == (1, 1)


def test_until_idle_gives_the_jobs_of_a_dead_worker_back_before_it_ends(bench):
    b = bench()
    job = b.enqueue()
    lose(b, job.id)
    assert b.worker(until="idle").run().completed == 1
    assert b.queue.get(job.id).state is State.COMPLETED


def test_a_store_plugin_that_fails_is_trouble_and_not_the_workers_end(bench, monkeypatch):
    b = bench()
    job = b.enqueue()
    failures = []

    def broken(self, presence):
        failures.append(1)
        raise ZeroDivisionError("a fault of the plugin")

    claim = MemoryStore.claim

    def failing(self, *args, **kwargs):
        if len(failures) < 3:
            broken(self, None)
        return claim(self, *args, **kwargs)

    monkeypatch.setattr(MemoryStore, "claim", failing)
    monkeypatch.setattr(MemoryStore, "workers", broken)
    assert b.worker().run().completed == 1
    assert b.queue.get(job.id).run == 1
    assert any("ZeroDivisionError: a fault of the plugin" in note for note in b.notes)


def test_a_job_that_cannot_be_given_back_is_told_once(bench):
    b = bench()
    b.executor.recovery = Recovered(clean=False, why="pid 4711 cannot be ended")
    job = b.enqueue()
    lose(b, job.id)
    b.enqueue(delay=5)
    b.worker().run()
    assert len([note for note in b.notes if job.id in note and "4711" in note]) == 1


def test_a_worker_never_recovers_itself(bench):
    b = bench(lambda job: None)
    job = b.enqueue()
    worker = b.worker()

    class RemovingClock(FakeClock):
        def wait(self, wake, seconds):
            b.storage.gone.add(worker.info.id)
            self.advance(seconds)
            if self.monotonic() > 5:
                b.executor.running[job.id].end(SUCCESS)
            return wake.clear()

    b.clock.__class__ = RemovingClock
    worker.run()
    assert b.executor.recovered == []
    assert b.queue.get(job.id).losses == 0


def test_a_claim_that_took_effect_and_failed_all_the_same_is_handed_back(bench, monkeypatch):
    b = bench()
    job = b.enqueue()
    claim = MemoryStore.claim
    failures = []

    def failing(self, *args, **kwargs):
        claimed = claim(self, *args, **kwargs)
        if claimed.claims and not failures:
            failures.append(1)
            raise StoreUnavailable("fsync failed")
        return claimed

    monkeypatch.setattr(MemoryStore, "claim", failing)
    b.worker().run()
    after = b.queue.get(job.id)
    assert (after.state, after.run, after.attempts, after.losses) == (State.COMPLETED, 2, 0, 0)
    assert [run.outcome for run in after.history] == ["released", "completed"]


def test_a_due_job_is_no_reason_to_hurry_where_nothing_may_be_claimed(bench):
    b = bench(lambda job: None)
    first = b.enqueue()
    b.enqueue(delay=0.5)
    worker = b.worker(until=None, count=2)
    waits = []

    class DrainingClock(FakeClock):
        def wait(self, wake, seconds):
            worker.stop()
            waits.append(seconds)
            if len(waits) > 20:
                b.executor.running[first.id].end(SUCCESS)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = DrainingClock
    worker.run()
    assert waits.count(0.0) <= 2


def nested(depth):
    value = "bottom"
    for _ in range(depth):
        value = [value]
    return value


NONSENSE = {
    "too deep": lambda ended: ended(Outcome(kind=Kind.SUCCESS, result=nested(900))),
    "nothing": lambda ended: ended(None),
    "twice": lambda ended: (ended(SUCCESS), ended(FAILURE)),
    "a delay of ages": lambda ended: ended(Outcome(kind=Kind.RELEASED, delay=timedelta.max)),
    "no JSON": lambda ended: ended(Outcome(kind=Kind.SUCCESS, result={1, 2})),
    "not a number": lambda ended: ended(Outcome(kind=Kind.SUCCESS, result=float("nan"))),
    "an end and an error": lambda ended: (ended(SUCCESS), 1 / 0),
}


@pytest.mark.parametrize("report", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_of_an_executor_costs_at_most_the_attempt(bench, report):
    b = bench()
    start = b.executor.start

    def nonsense(attempt, ended):
        if attempt.job.id == "odd":
            attempt.output.close()
            report(ended)
            return None
        return start(attempt, ended)

    b.executor.start = nonsense
    b.enqueue("odd", max_attempts=1, priority=9)
    b.enqueue("sound")
    b.worker().run()
    assert b.queue.get("sound").state is State.COMPLETED
    assert b.queue.get("odd").state in (State.COMPLETED, State.DEAD)


def test_an_executor_that_cannot_stop_a_job_does_not_end_the_worker(bench):
    b = bench(lambda job: None)
    job = b.enqueue()
    worker = b.worker(until=None)

    class StoppingClock(FakeClock):
        def wait(self, wake, seconds):
            running = b.executor.running[job.id]
            if self.monotonic() == 0:
                running.stop = lambda grace: 1 / 0
                worker.stop(NOW)
            elif self.monotonic() > 3:
                running.end(FAILURE)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = StoppingClock
    worker.run()
    assert b.queue.get(job.id).state is State.PENDING
    assert any("cannot be stopped" in note for note in b.notes)


def test_jobs_held_up_in_other_queues_do_not_end_a_worker_too_early(bench):
    b = bench()
    b.executor.recovery = Recovered(clean=False, why="pid 4711 cannot be ended")
    lost = b.enqueue(queue="other")
    lose(b, lost.id)
    mine = b.enqueue(queue="mine")
    store = MemoryStore(b.storage)
    from jobq.store import Wanted

    elsewhere = store.join(make_info())
    (claim,) = store.claim(elsewhere, wanted=Wanted(queues=("mine",)), limit=1, now=b.clock.now()).claims
    assert claim.job.id == mine.id

    class FailingClock(FakeClock):
        def wait(self, wake, seconds):
            if self.monotonic() > 5 and b.queue.get(mine.id).state is State.PROCESSING:
                from jobq.lifecycle import after as ended_after
                from jobq.store import Ended

                change = ended_after(
                    claim, FAILURE, now=self.now(), delay=lambda attempts, outcome: timedelta(seconds=1)
                )
                store.finish(elsewhere, [Ended(claim, change)], now=self.now())
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = FailingClock
    b.worker(queues=["mine"]).run()
    assert b.queue.get(mine.id).state is State.COMPLETED


def test_stop_now_gives_no_outcome_away_without_a_last_try(bench):
    b = bench(lambda job: None)
    store = FullStore(b.storage)
    b.app.store = store
    job = b.enqueue()
    worker = b.worker(until=None)

    class FullClock(FakeClock):
        def wait(self, wake, seconds):
            if job.id in b.executor.running:
                store.full = True
                b.executor.running[job.id].end(SUCCESS)
            elif self.monotonic() > 20 and store.full:
                store.full = False
                worker.stop(NOW)
                return wake.clear()
            self.advance(max(seconds, 0.001))
            return wake.clear()

    b.clock.__class__ = FullClock
    worker.run()
    assert b.queue.get(job.id).state is State.COMPLETED


def test_a_report_that_fails_stops_no_work_and_is_told_once(bench, monkeypatch):
    b = bench(lambda job: None)
    jobs = [b.enqueue() for _ in range(3)]

    def broken(self, worker, info):
        raise StoreUnavailable("no space left on device")

    monkeypatch.setattr(MemoryStore, "report", broken)

    class EndingClock(FakeClock):
        def wait(self, wake, seconds):
            for running in list(b.executor.running.values()):
                running.end(SUCCESS)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = EndingClock
    assert b.worker().run().completed == len(jobs)
    assert len([note for note in b.notes if "cannot be told to others" in note]) == 1
    assert not any("store trouble" in note for note in b.notes)


def test_of_a_worker_whose_words_are_gone_no_loss_is_counted(bench):
    b = bench()
    job = b.enqueue()
    lose(b, job.id, pid=0)
    Recovery(b.app).settle()
    assert (b.queue.get(job.id).state, b.queue.get(job.id).losses) == (State.PENDING, 0)


def test_a_machine_without_room_for_a_thread_recovers_later(bench, monkeypatch):
    b = bench()
    job = b.enqueue()
    lose(b, job.id)
    start = threading.Thread.start
    refused = []

    def full(self):
        if self.name.startswith("jobq-recover") and not refused:
            refused.append(1)
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", full)
    recovery = Recovery(b.app)
    (held,) = recovery.settle()
    assert "can't start new thread" in held.why
    assert not recovery.under_way
    b.clock.advance(2)
    assert recovery.settle() == ()
    assert b.queue.get(job.id).state is State.PENDING


def test_a_step_of_the_clock_moves_due_times_by_the_step_and_nothing_else(bench):
    b = bench(lambda job: None)
    running = b.enqueue()
    due = b.enqueue(delay=100)

    class SteppingClock(FakeClock):
        steps = 0

        def wait(self, wake, seconds):
            type(self).steps += 1
            if self.steps == 3:
                self.step(3600)
            if self.steps > 6:
                for item in list(b.executor.running.values()):
                    item.end(SUCCESS)
            self.advance(seconds)
            return wake.clear()

    b.clock.__class__ = SteppingClock
    b.worker().run()
    assert b.queue.get(running.id).run == 1
    assert b.clock.monotonic() < 60
    assert b.queue.get(due.id).state is State.COMPLETED


@pytest.mark.parametrize(("depth", "state"), [(100, State.COMPLETED), (101, State.DEAD)])
def test_a_result_may_be_as_deep_as_a_payload_and_no_deeper(bench, depth, state):
    b = bench(lambda job: Outcome(kind=Kind.SUCCESS, result=nested(depth)))
    job = b.enqueue(max_attempts=1)
    b.worker().run()
    assert b.queue.get(job.id).state is state


def test_a_job_that_must_run_alone_has_its_turn_in_a_worker_that_is_never_idle(bench):
    b = bench(lambda job: None)
    b.enqueue("risky", priority=9)
    for _ in range(2):
        lose(b, "risky")
        Recovery(b.app).settle()
    b.queue.pause("default")
    b.enqueue("a", queue="other")
    b.enqueue("b", queue="other")
    others = 0
    worker = b.worker(count=2, until=None)

    class BusyClock(FakeClock):
        def wait(self, wake, seconds):
            """One ends each second, and another one is always there."""
            nonlocal others
            if not others:
                b.queue.resume("default")
            if "risky" in b.executor.running or others > 100:
                worker.stop(NOW)
            others += 1
            b.enqueue(f"other-{others}")
            next(iter(b.executor.running.values())).end(SUCCESS)
            self.advance(1)
            return wake.clear()

    b.clock.__class__ = BusyClock
    b.executor.stopped = SUCCESS
    worker.run()
    (run,) = (attempt for attempt in b.executor.started if attempt.job.id == "risky")
    assert 10 < (run.job.started_at - START).total_seconds() < 20
    assert len(b.executor.started) > 10, "it is given way to only when it has waited"


def test_a_worker_stands_back_only_so_long_for_a_job_that_must_run_alone():
    clock = FakeClock()
    turns = Turns(clock)
    stood_back = []
    for _ in range(620):
        turns.look(waits=True)
        stood_back.append(turns.stands_back)
        clock.advance(1)
    assert [stood_back[second] for second in (0, 9, 10, 39, 40, 299, 309, 310, 339, 340)] == [
        False, False, True, True, False, False, False, True, True, False,
    ]  # fmt: skip
    turns.look(waits=False)
    assert not turns.stands_back


def test_progress_costs_the_store_nothing(bench):
    b = bench(lambda job: None)
    b.enqueue("one")
    claims = []
    claim = b.app.store.claim
    b.app.store.claim = lambda *args, **options: claims.append(1) or claim(*args, **options)

    class ReportingClock(FakeClock):
        def wait(self, wake, seconds):
            """A thousand reports in ten seconds."""
            running = b.executor.running["one"]
            running.attempt.progress(Progress(float(len(told))))
            told.append(len(claims))
            if len(told) > 1000:
                running.end(SUCCESS)
            self.advance(0.01 if wake.clear() else min(seconds, 0.01))
            return True

    told = []
    b.clock.__class__ = ReportingClock
    rings = []
    worker = b.worker(count=2)
    ring = worker._wake.ring
    worker._attempts._ring = lambda: rings.append(1) or ring()
    worker.run()
    assert 5 <= len(rings) <= 15, "once for each second's report, and for the end"


def test_an_attempt_that_was_sent_ahead_is_told_with_its_own_start(bench):
    b = bench(lambda job: None)
    b.executor.most_ahead = 1
    b.app.__dict__["handlers"] = {"h": None}
    b.enqueue("first", handler="h")
    b.enqueue("second", handler="h")
    worker = b.worker(count=1)
    started = []

    class EndingClock(FakeClock):
        def wait(self, wake, seconds):
            self.advance(1)
            if "first" in b.executor.running:
                b.executor.running["first"].end(SUCCESS)
            else:
                started.extend(running.started for running in worker._attempts.told() if running.job == "second")
                b.executor.running["second"].end(SUCCESS)
            return wake.clear()

    b.clock.__class__ = EndingClock
    worker.run()
    assert started[-1] >= START + timedelta(seconds=1)


def test_output_that_could_not_be_kept_is_told_and_stands_in_the_history(bench):
    def fills(attempt):
        attempt.output.error = "No space left on device"
        return SUCCESS

    b = bench(lambda job: fills if job.id == "full" else SUCCESS)
    b.enqueue("full")
    b.enqueue("fine")
    b.worker().run()
    full, fine = (b.queue.get(job_id).history[-1] for job_id in ("full", "fine"))
    assert (full.outcome, full.output_error) == ("completed", "No space left on device")
    assert fine.output_error is None
    assert "not all output of job full could be kept: No space left on device" in b.notes


@pytest.mark.parametrize("until", ["idle", "empty"])
def test_a_worker_that_is_to_end_does_not_wait_for_an_unreadable_store(bench, until):
    b = bench()
    b.enqueue("one")

    def unreadable(*_, **__):
        raise StoreUnreadable("the store is damaged")

    b.app.store.claim = unreadable
    with pytest.raises(StoreUnreadable, match="damaged"):
        b.worker(until=until).run()


def test_a_worker_that_has_nothing_to_do_any_more_lets_its_store_rest_once(bench, monkeypatch):
    b = bench()
    rests = []
    monkeypatch.setattr(MemoryStore, "rest", lambda self: rests.append(b.clock.monotonic()))
    worker = b.worker(until=None)
    waits = []
    wait = b.clock.wait

    def waited(wake, seconds):
        waits.append(seconds)
        if len(waits) == 3:
            b.enqueue()
        if len(waits) == 10:
            worker.stop()
        return wait(wake, seconds)

    monkeypatch.setattr(b.clock, "wait", waited)
    worker.run()
    assert len(rests) == 1
