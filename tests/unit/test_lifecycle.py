"""How a job changes: the table of states, cell by cell."""

from datetime import timedelta

import pytest

from jobq import lifecycle
from jobq.errors import Conflict, WrongState
from jobq.executor import Kind, Outcome
from jobq.job import ERROR_LIMIT, Change, Run, State
from jobq.progress import Progress
from jobq.store import Claim
from jobq.testing import START, make_job

NOW = START + timedelta(seconds=100)
SECOND = timedelta(seconds=1)


def job_in(state, **fields):
    defaults = {"state": state, "attempts": 2, "losses": 1, "max_attempts": 4, "run": 3, "rev": 9}
    if state is State.PROCESSING:
        defaults |= {"worker": "w1", "started_at": START}
    return make_job("x", **(defaults | fields))


def held(**fields):
    job = job_in(State.PROCESSING, **fields)
    return Claim(job, "w1", "alpha")


def failed(**fields):
    return Outcome(**({"kind": Kind.FAILURE, "reason": "exit code 1", "exit_code": 1} | fields))


def wait_of(seconds):
    return lambda _attempts, _outcome: None if seconds is None else timedelta(seconds=seconds)


def never(_attempts, _outcome):
    raise AssertionError("the backoff is not asked")


def after(claim, outcome, delay=never, now=NOW):
    return claim.job.changed(lifecycle.after(claim, outcome, now=now, delay=delay), now=now)


@pytest.mark.parametrize("state", [State.PENDING, State.FAILED])
def test_a_claim_begins_a_run(state):
    job = job_in(state)
    taken = job.changed(lifecycle.claimed(job, "w2", now=NOW), now=NOW)
    assert (taken.state, taken.run, taken.worker, taken.started_at) == (State.PROCESSING, 4, "w2", NOW)
    assert (taken.attempts, taken.losses, taken.history) == (2, 1, ())


def test_a_success_completes():
    job = after(held(), Outcome(kind=Kind.SUCCESS, exit_code=0, result={"rows": 1}))
    assert (job.state, job.result, job.exit_code, job.last_error) == (State.COMPLETED, {"rows": 1}, 0, None)
    assert (job.attempts, job.losses, job.worker, job.finished_at, job.started_at) == (2, 0, None, NOW, START)
    assert job.history == (
        Run(run=3, worker="w1", host="alpha", started=START, finished=NOW, outcome="completed", error=None),
    )


def test_an_attempt_that_was_sent_ahead_has_the_time_at_which_it_began():
    began = START + SECOND
    job = after(held(), Outcome(kind=Kind.SUCCESS, started=began))
    assert job.started_at == job.history[-1].started == began


def test_the_last_progress_is_kept_with_the_attempt():
    job = after(held(), failed(progress=Progress(3, 10, "resizing")), wait_of(1))
    assert job.history[-1].progress == {"done": 3, "total": 10, "note": "resizing"}
    assert Run.from_record(job.history[-1].record()) == job.history[-1]
    assert "progress" not in after(held(), failed(), wait_of(1)).history[-1].record()


def test_a_success_forgets_an_earlier_failure():
    job = after(held(last_error="exit code 1", exit_code=1), Outcome(kind=Kind.SUCCESS, result=None))
    assert (job.last_error, job.exit_code) == (None, None)


def test_a_failure_waits_for_the_backoff():
    asked = []

    def delay(attempts, outcome):
        asked.append((attempts, outcome))
        return timedelta(seconds=8.0001)

    outcome = failed(tail="one\ntwo\n\n")
    job = after(held(), outcome, delay)
    assert asked == [(3, outcome)]
    assert (job.state, job.attempts, job.losses, job.worker) == (State.FAILED, 3, 0, None)
    assert job.run_at == NOW + timedelta(milliseconds=8001), "never earlier than the backoff says"
    assert (job.exit_code, job.last_error, job.finished_at) == (1, "exit code 1\none\ntwo", None)
    assert [(run.run, run.outcome, run.error) for run in job.history] == [(3, "failed", "exit code 1")]


def test_the_last_attempt_makes_it_dead_without_asking_the_backoff():
    job = after(held(attempts=3), failed())
    assert (job.state, job.attempts, job.finished_at) == (State.DEAD, 4, NOW)


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
def test_a_job_has_as_many_attempts_as_it_says(max_attempts):
    job, attempts = make_job("x", max_attempts=max_attempts), 0
    while job.state is not State.DEAD:
        job = job.changed(lifecycle.claimed(job, "w", now=NOW), now=NOW)
        job = after(Claim(job, "w", "h"), failed(), wait_of(0))
        attempts += 1
    assert attempts == max_attempts


def test_a_backoff_may_give_up():
    assert after(held(), failed(), wait_of(None)).state is State.DEAD


@pytest.mark.parametrize("outcome", [failed(permanent=True), Outcome(kind=Kind.CANNOT_START, reason="no such file: x")])
def test_what_is_permanent_is_not_tried_again(outcome):
    job = after(held(), outcome)
    assert (job.state, job.attempts, job.last_error) == (State.DEAD, 3, outcome.reason)
    assert job.history[-1].outcome == outcome.kind.value


CONDITIONS = [
    ((75,), failed(exit_code=75), True),
    ((75,), failed(exit_code=7), False),
    ((1, 75), failed(exit_code=75), True),
    (("70-80",), failed(exit_code=70), True),
    (("70-80",), failed(exit_code=80), True),
    (("70-80",), failed(exit_code=81), False),
    (("70-80",), failed(exit_code=None, exception="ValueError"), False),
    ((0,), failed(exit_code=None, exception="ValueError"), False),
    (("timeout",), Outcome(kind=Kind.TIMEOUT, reason="timed out"), True),
    (("timeout",), failed(), False),
    (("signal",), Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL"), True),
    (("signal",), Outcome(kind=Kind.TIMEOUT, reason="timed out"), False),
    (("ValueError",), failed(exit_code=None, exception="ValueError"), True),
    (("ValueError",), failed(exit_code=None, exception="OSError"), False),
    (("ValueError",), failed(), False),
    (("ValueError", "timeout", 3, "9-10"), failed(exit_code=9), True),
]


@pytest.mark.parametrize(("conditions", "outcome", "named"), CONDITIONS)
def test_conditions_say_what_is_retried(conditions, outcome, named):
    states = {True: State.FAILED, False: State.DEAD}
    assert after(held(retry_on=conditions), outcome, wait_of(1)).state is states[named]
    assert after(held(no_retry_on=conditions), outcome, wait_of(1)).state is states[not named]
    both = held(retry_on=conditions, no_retry_on=conditions)
    assert after(both, outcome, wait_of(1)).state is State.DEAD, "no_retry_on wins"


def test_cannot_start_is_permanent_whatever_is_to_be_retried():
    outcome = Outcome(kind=Kind.CANNOT_START, reason="no such file: x", exit_code=127)
    assert after(held(retry_on=(127,)), outcome).state is State.DEAD


@pytest.mark.parametrize(
    ("outcome", "exit_code", "error"),
    [
        (Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL"), None, "signal SIGKILL"),
        (Outcome(kind=Kind.TIMEOUT, reason="timed out after 5s", exit_code=143), 143, "timed out after 5s"),
        (Outcome(kind=Kind.FAILURE), None, "failed"),
        (failed(tail="\n\n"), 1, "exit code 1"),
    ],
)
def test_the_reason_of_a_failure_is_kept(outcome, exit_code, error):
    job = after(held(), outcome, wait_of(1))
    assert (job.exit_code, job.last_error) == (exit_code, error)


def test_the_output_in_an_error_is_bounded():
    job = after(held(), failed(tail="a" * ERROR_LIMIT + "the end"), wait_of(1))
    assert len(job.last_error) <= len("exit code 1\n") + ERROR_LIMIT
    assert job.last_error.endswith("the end")


def test_the_end_of_the_leader_is_the_end_of_the_run():
    ended = NOW - 5 * SECOND
    job = after(held(), failed(finished=ended), wait_of(10))
    assert job.history[-1].finished == ended
    assert job.run_at == NOW + 10 * SECOND
    assert after(held(), Outcome(kind=Kind.SUCCESS, finished=ended)).finished_at == ended


def test_a_release_counts_nothing():
    claim = held()
    job = after(claim, Outcome(kind=Kind.RELEASED, reason="the worker stops"))
    assert (job.state, job.attempts, job.losses, job.run) == (State.PENDING, 2, 1, 3)
    assert (job.worker, job.started_at, job.run_at) == (None, None, claim.job.run_at)
    assert [(run.outcome, run.error) for run in job.history] == [("released", "the worker stops")]


def test_a_snooze_is_a_release_with_a_delay():
    job = after(held(), Outcome(kind=Kind.RELEASED, delay=timedelta(seconds=30)))
    assert (job.state, job.run_at, job.attempts) == (State.PENDING, NOW + 30 * SECOND, 2)


def lost(claim, *, counted=True, max_losses=3):
    return claim.job.changed(lifecycle.lost(claim, now=NOW, counted=counted, max_losses=max_losses), now=NOW)


def test_a_loss_is_not_the_jobs_failure():
    claim = held()
    job = lost(claim)
    assert (job.state, job.losses, job.attempts) == (State.PENDING, 2, 2)
    assert (job.worker, job.started_at, job.run_at, job.finished_at) == (None, None, claim.job.run_at, None)
    assert [(run.run, run.outcome) for run in job.history] == [(3, "lost")]


@pytest.mark.parametrize("on_lost", ["retry", "dead"])
def test_a_run_that_had_not_begun_counts_for_nothing_when_lost(on_lost):
    claim = held(losses=2, on_lost=on_lost)
    job = claim.job.changed(lifecycle.lost_unstarted(claim, now=NOW), now=NOW)
    assert (job.state, job.attempts, job.losses, job.worker) == (State.PENDING, 2, 2, None)
    assert (job.history[-1].outcome, job.history[-1].error) == ("lost", "the worker was gone before it began")


def test_losses_in_a_row_are_contained():
    job = lost(held(losses=2))
    assert (job.state, job.losses, job.attempts, job.finished_at) == (State.DEAD, 3, 2, NOW)
    assert job.last_error == "its worker died while it ran, 3 times in a row"
    assert (job.exit_code, job.worker) == (None, None)
    assert lost(held(losses=2), max_losses=4).state is State.PENDING
    assert lost(held(losses=0), max_losses=1).state is State.DEAD


def test_a_loss_that_says_nothing_about_the_job_is_not_counted():
    job = lost(held(losses=2), counted=False)
    assert (job.state, job.losses) == (State.PENDING, 2)


def test_a_job_that_must_not_run_twice_is_dead_when_lost():
    job = lost(held(on_lost="dead", losses=0))
    assert (job.state, job.losses) == (State.DEAD, 1)
    assert "on_lost" in job.last_error


@pytest.mark.parametrize(
    "outcome", [failed(), Outcome(kind=Kind.SUCCESS), Outcome(kind=Kind.CANNOT_START), Outcome(kind=Kind.TIMEOUT)]
)
def test_any_outcome_ends_the_row_of_losses(outcome):
    assert after(held(losses=2), outcome, wait_of(1)).losses == 0


def settled(claim, change):
    stored = claim.job.changed(Change({"cancel_requested_at": NOW}), now=NOW)
    return stored.changed(lifecycle.settled(stored, change), now=NOW)


def test_a_success_stands_against_a_cancel():
    claim = held()
    change = lifecycle.after(claim, Outcome(kind=Kind.SUCCESS, result=5), now=NOW, delay=never)
    job = settled(claim, change)
    assert (job.state, job.result, job.cancel_requested_at) == (State.COMPLETED, 5, None)
    assert job.history[-1].outcome == "completed"


ENDS = {
    "failed": lambda claim: lifecycle.after(claim, failed(), now=NOW, delay=wait_of(1)),
    "dead": lambda claim: lifecycle.after(claim, failed(permanent=True), now=NOW, delay=never),
    "released": lambda claim: lifecycle.released(claim, Outcome(kind=Kind.RELEASED), now=NOW),
    "lost": lambda claim: lifecycle.lost(claim, now=NOW, counted=True, max_losses=3),
    "lost and dead": lambda claim: lifecycle.lost(claim, now=NOW, counted=True, max_losses=1),
}


@pytest.mark.parametrize("end", ENDS)
def test_everything_else_is_cancelled_where_that_was_asked(end):
    claim = held()
    change = ENDS[end](claim)
    job = settled(claim, change)
    assert (job.state, job.worker, job.cancel_requested_at, job.finished_at) == (State.CANCELLED, None, None, NOW)
    assert (job.attempts, job.losses) == (2, 1)
    assert [(run.run, run.worker, run.outcome) for run in job.history] == [(3, "w1", "cancelled")]
    assert lifecycle.settled(claim.job, change) is change, "nothing was asked"


CANCEL = {
    State.PENDING: State.CANCELLED,
    State.FAILED: State.CANCELLED,
    State.PROCESSING: State.PROCESSING,
    State.CANCELLED: None,
    State.COMPLETED: Conflict,
    State.DEAD: Conflict,
}
RETRY = {
    State.PENDING: None,
    State.FAILED: State.PENDING,
    State.DEAD: State.PENDING,
    State.CANCELLED: State.PENDING,
    State.PROCESSING: Conflict,
    State.COMPLETED: Conflict,
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize(("verb", "table"), [(lifecycle.cancel, CANCEL), (lifecycle.retry, RETRY)])
def test_what_a_person_asks_is_done_or_a_conflict(verb, table, state):
    job, expected = job_in(state), table[state]
    if expected is Conflict:
        with pytest.raises(WrongState, match=f"cannot {verb.__name__} job x: it is {state}, not ") as caught:
            verb(job, now=NOW)
        assert caught.value.exit_code == 4
        return
    change = verb(job, now=NOW)
    assert (change is None) == (expected is None)
    if change is not None:
        assert job.changed(change, now=NOW).state is expected


def test_a_cancelled_job_is_finished():
    job = job_in(State.FAILED)
    job = job.changed(lifecycle.cancel(job, now=NOW), now=NOW)
    assert (job.finished_at, job.attempts) == (NOW, 2)


def test_a_running_job_is_asked_once_to_stop():
    job = job_in(State.PROCESSING)
    asked = job.changed(lifecycle.cancel(job, now=NOW), now=NOW)
    assert (asked.cancel_requested_at, asked.worker, asked.run) == (NOW, "w1", 3)
    assert lifecycle.cancel(asked, now=NOW + SECOND) is None


def test_a_retry_of_a_failed_job_keeps_its_attempts():
    job = job_in(State.FAILED, run_at=NOW + timedelta(hours=1))
    again = job.changed(lifecycle.retry(job, now=NOW), now=NOW)
    assert (again.state, again.run_at, again.attempts, again.losses) == (State.PENDING, NOW, 2, 1)


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED])
def test_a_retry_of_an_ended_job_begins_anew(state):
    job = job_in(state, attempts=4, losses=3, finished_at=START, last_error="exit code 1")
    again = job.changed(lifecycle.retry(job, now=NOW), now=NOW)
    assert (again.state, again.run_at, again.attempts, again.losses) == (State.PENDING, NOW, 0, 0)
    assert (again.finished_at, again.cancel_requested_at, again.run) == (None, None, 3)
    assert again.last_error == "exit code 1"


@pytest.mark.parametrize("state", State)
def test_all_but_running_jobs_can_be_deleted(state):
    if state is State.PROCESSING:
        with pytest.raises(WrongState, match="cannot delete job x: it is processing"):
            lifecycle.check_deletable(job_in(state))
    else:
        lifecycle.check_deletable(job_in(state))


@pytest.mark.parametrize("state", State)
def test_only_finished_jobs_are_kept_for_a_while(state):
    until = lifecycle.kept_until(job_in(state, updated_at=START), timedelta(days=7))
    assert until == (START + timedelta(days=7) if state in (State.COMPLETED, State.CANCELLED) else None)


@pytest.mark.parametrize(
    "give_back",
    [
        lambda claim, now: lifecycle.released(claim, Outcome(kind=Kind.RELEASED), now=now),
        lambda claim, now: lifecycle.taken_back(claim, now=now),
        lambda claim, now: lifecycle.lost(claim, now=now, counted=True, max_losses=3),
        lambda claim, now: lifecycle.lost_unstarted(claim, now=now),
    ],
    ids=["released", "taken back", "lost", "lost unstarted"],
)
def test_what_is_given_back_is_due_as_it_was_also_when_the_clock_was_set_back(give_back):
    claim = held(run_at=START)
    for now, due in ((NOW, START), (START - timedelta(hours=1), START - timedelta(hours=1))):
        assert claim.job.changed(give_back(claim, now), now=now).run_at == due
