"""Stores with one fault each, and the tests of the suite that must find it."""

import contextlib
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from file_store import FileStore

from jobq.errors import DuplicateJob, JobChanged, JobNotFound, StoreUnavailable
from jobq.job import WAITING, Change, State
from jobq.store import Claimed, NewJob, Wanted
from jobq.testing import MemoryStorage, MemoryStore


@dataclass(frozen=True)
class Fault:
    """A broken store, and the tests that find out."""

    store: type[MemoryStore]
    found_by: tuple[str, ...]


FAULTS: dict[str, Fault] = {}


def fault(*found_by):
    """Note a broken store under its name, with the tests that must fail on it."""

    def note(store):
        FAULTS[store.__name__] = Fault(store, found_by)
        return store

    return note


class Keeping(MemoryStore):
    """Keeps of each job that is added what `kept` says."""

    def kept(self, job):
        raise NotImplementedError

    def add(self, new, *, now):
        super().add([NewJob(self.kept(item.job), item.generated) for item in new], now=now)
        return [item.job for item in new]


@fault("test_every_field_is_kept")
class ForgetsAField(Keeping):
    def kept(self, job):
        return replace(job, tags=())


@fault("test_every_field_is_kept", "test_what_is_unknown_survives_a_whole_life")
class DropsUnknownFields(Keeping):
    def kept(self, job):
        return replace(job, extra={})


@fault("test_every_json_value_is_kept_as_it_is")
class TakesTrueForOne(Keeping):
    def kept(self, job):
        return replace(job, payload=[1 if value is True else value for value in job.payload])


@fault("test_a_large_payload_is_kept")
class CutsLongTexts(Keeping):
    def kept(self, job):
        long = isinstance(job.payload, dict) and len(job.payload.get("text", "")) > 1 << 16
        return replace(job, payload={"text": job.payload["text"][: 1 << 16]}) if long else job


@fault("test_many_are_given_by_their_whole_ids")
class GivesManyByTheirBeginning(MemoryStore):
    def get_many(self, job_ids):
        return {job.id: job for text in job_ids for job in self.storage.jobs.values() if job.id.startswith(text)}


@fault(
    "test_every_taken_or_repeated_id_is_named_and_nothing_added",
    "test_a_batch_of_any_size_is_added_whole_or_not_at_all",
)
class AddsHalfOfABatchWithADuplicate(MemoryStore):
    def add(self, new, *, now):
        for item in new:
            super().add([item], now=now)
        return [item.job for item in new]


@fault("test_every_taken_or_repeated_id_is_named_and_nothing_added")
class NamesOneDuplicate(MemoryStore):
    def add(self, new, *, now):
        try:
            return super().add(new, now=now)
        except DuplicateJob as error:
            raise DuplicateJob(error.ids[:1]) from None


@fault("test_an_id_is_taken_until_its_job_is_deleted")
class AddsOverFinishedJobs(MemoryStore):
    def add(self, new, *, now):
        for item in new:
            stored = self.storage.jobs.get(item.job.id)
            if stored is not None and stored.state is State.COMPLETED:
                self.storage.drop(stored.id)
        return super().add(new, now=now)


class Ordering(MemoryStore):
    """Claims in an order of its own."""

    def key(self, job):
        raise NotImplementedError

    def _wanted(self, wanted):
        return sorted(super()._wanted(wanted), key=self.key)


@fault("test_the_order_is_priority_then_due_time_then_sequence")
class IgnoresPriority(Ordering):
    def key(self, job):
        return job.run_at, self.storage.sequence[job.id]

    def next_due(self, wanted, *, now):
        due = super().next_due(wanted, now=now)
        return None if due is None else max(due, now)


@fault("test_the_order_is_priority_then_due_time_then_sequence")
class LosesTheOrderOfEquals(Ordering):
    def key(self, job):
        return -job.priority, job.run_at, -self.storage.sequence[job.id]


@fault("test_the_order_is_priority_then_due_time_then_sequence")
class IgnoresTheOrderOfDueTimes(Ordering):
    def key(self, job):
        return -job.priority, self.storage.sequence[job.id]


class Claiming(MemoryStore):
    """Claims with other arguments than it is given."""

    def claim(self, worker, *, wanted, limit, now, ended=()):
        instead = {"wanted": wanted, "limit": limit, "now": now} | self.instead(wanted, limit)
        return super().claim(worker, ended=ended, **instead)

    def instead(self, wanted, limit):
        raise NotImplementedError


@fault("test_only_what_is_due_is_claimed")
class IgnoresRunAt(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        answer = super().claim(worker, wanted=wanted, limit=0, now=now, ended=ended)
        future = now.replace(year=9999)
        claims = super().claim(worker, wanted=wanted, limit=limit, now=future).claims
        return replace(answer, claims=claims)


@fault("test_the_time_is_what_the_caller_says")
class ReadsTheClock(Claiming):
    def instead(self, wanted, limit):
        return {"now": datetime.now(UTC).replace(microsecond=0)}


@fault("test_the_order_is_priority_then_due_time_then_sequence", "test_ends_are_recorded_before_the_next_claim")
class IgnoresTheLimit(Claiming):
    def instead(self, wanted, limit):
        return {"limit": limit and limit + 1}


@fault("test_a_claim_ends_before_the_first_job_that_may_not_lead")
class IgnoresLeading(Claiming):
    def instead(self, wanted, limit):
        return {"wanted": replace(wanted, leading=None)}


@fault("test_leading_is_shown_what_would_be_claimed_once_and_in_claim_order")
class AsksLeadingAboutEverything(MemoryStore):
    def _wanted(self, wanted):
        jobs = super()._wanted(wanted)
        if wanted.leading is not None:
            for job in jobs:
                wanted.leading(job)
        return jobs


@fault("test_jobs_that_must_run_alone_are_left_or_taken_as_wanted", "test_the_next_due_time_is_that_of_what_is_wanted")
class IgnoresWhoRunsAlone(MemoryStore):
    def _wanted(self, wanted):
        return super()._wanted(replace(wanted, alone=None))


@fault("test_only_installed_handlers_are_claimed")
class ClaimsHandlersThatNobodyAskedFor(MemoryStore):
    def _wanted(self, wanted):
        return super()._wanted(replace(wanted, handlers=None))


@fault("test_only_wanted_queues_are_claimed_from")
class ClaimsFromEveryQueue(MemoryStore):
    def _wanted(self, wanted):
        return super()._wanted(replace(wanted, queues=wanted.queues or None))


@fault("test_a_paused_queue_is_not_claimed_from")
class ClaimsFromAPausedQueue(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        paused, self.storage.paused = self.storage.paused, {}
        try:
            return super().claim(worker, wanted=wanted, limit=limit, now=now, ended=ended)
        finally:
            self.storage.paused = paused


@fault("test_what_is_not_wanted_delays_nothing_behind_it")
class LooksAtTheFirstHundredOnly(MemoryStore):
    def _wanted(self, wanted):
        first = {job.id for job in super()._wanted(Wanted())[:100]}
        return [job for job in super()._wanted(wanted) if job.id in first]


@fault("test_a_job_with_many_losses_is_claimed_alone_and_only_when_first")
class ClaimsPoisonAmongOthers(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        answer = super().claim(worker, wanted=wanted, limit=limit, now=now, ended=ended)
        while answer.claims and len(answer.claims) < limit:
            more = super().claim(worker, wanted=wanted, limit=limit - len(answer.claims), now=now).claims
            if not more:
                break
            answer = replace(answer, claims=[*answer.claims, *more])
        return answer


@fault("test_a_claim_is_the_stored_job_with_a_new_run", "test_threads_at_once_claim_every_job_once")
class ClaimsTwice(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        before = dict(self.storage.jobs)
        answer = super().claim(worker, wanted=wanted, limit=limit, now=now, ended=ended)
        self.storage.jobs.update({claim.job.id: before[claim.job.id] for claim in answer.claims[:1]})
        return answer


@fault("test_threads_at_once_claim_every_job_once")
class ClaimsWithoutALock(MemoryStore):
    @contextlib.contextmanager
    def _changing(self):
        yield self.storage

    def _wanted(self, wanted):
        jobs = super()._wanted(wanted)
        time.sleep(0.0005)
        return jobs


@fault("test_held_is_what_runs_with_this_member")
class HoldsForEverybody(MemoryStore):
    def _held(self, worker_id):
        return [job for job in self.storage.jobs.values() if job.state is State.PROCESSING]


@fault("test_a_stale_end_is_refused_and_changes_nothing")
class IgnoresAStaleRun(MemoryStore):
    def passes(self, stored, claim):
        return stored.state is State.PROCESSING and stored.worker == claim.worker


@fault("test_an_end_by_another_worker_is_refused", "test_an_end_of_a_job_that_was_added_anew_is_refused")
class IgnoresWhoEndsARun(MemoryStore):
    def passes(self, stored, claim):
        return (stored.state, stored.run) == (State.PROCESSING, claim.run)


@fault("test_an_end_given_twice_in_one_call_counts_once", "test_a_stale_end_is_refused_and_changes_nothing")
class EndsWhatIsOver(MemoryStore):
    def passes(self, stored, claim):
        return stored.run == claim.run


@fault("test_an_id_that_was_added_anew_is_another_job")
class TakesAnIdForTheJob(MemoryStore):
    def change(self, before, change, *, now):
        stored = self.storage.jobs.get(before.id, before)
        return super().change(stored if stored.rev == before.rev else before, change, now=now)


@fault("test_an_id_that_was_added_anew_is_another_job")
class LetsARunEndTheNextJobOfItsId(MemoryStore):
    def passes(self, stored, claim):
        return (stored.state, stored.run, stored.worker) == (State.PROCESSING, claim.run, claim.worker)


@fault("test_a_refused_end_keeps_no_other_from_its_due")
class StopsAtARefusedEnd(MemoryStore):
    def _apply(self, ended, now):
        for number, each in enumerate(ended):
            refused, cancelled = super()._apply([each], now)
            if refused:
                return [item.claim for item in ended[number:]], cancelled
        return [], []


@fault("test_ends_are_recorded_before_the_next_claim")
class ClaimsBeforeItRecords(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        claims = super().claim(worker, wanted=wanted, limit=limit, now=now).claims
        answer = super().claim(worker, wanted=wanted, limit=0, now=now, ended=ended)
        return Claimed(claims, answer.refused, answer.cancelled)


@fault("test_a_cancel_asked_for_is_seen_by_the_holder_and_settled")
class EndsInSpiteOfACancel(MemoryStore):
    def _apply(self, ended, now):
        for each in ended:
            stored = self.storage.jobs.get(each.claim.job.id)
            if stored is not None:
                self.storage.jobs[stored.id] = replace(stored, cancel_requested_at=None)
        return super()._apply(ended, now)


@fault("test_a_cancel_asked_for_is_seen_by_the_holder_and_settled", "test_held_is_what_runs_with_this_member")
class ForgetsTheCancelRequest(MemoryStore):
    def change(self, before, change, *, now):
        fields = {name: value for name, value in change.fields.items() if name != "cancel_requested_at"}
        return super().change(before, Change(fields, change.run), now=now)


@fault("test_only_the_latest_rev_is_changed", "test_a_reaper_that_is_late_changes_nothing")
class IgnoresAStaleRev(MemoryStore):
    def change(self, before, change, *, now):
        return super().change(self.get(before.id), change, now=now)


@fault("test_of_many_those_are_changed_that_are_as_they_were")
class ChangesNoneOfManyAfterAStaleOne(MemoryStore):
    def change_many(self, changes, *, now):
        changed = []
        with contextlib.suppress(JobChanged, JobNotFound):
            for before, change in changes:
                changed.append(self.change(before, change, now=now))
        return changed


@fault("test_of_many_those_are_changed_that_are_as_they_were")
class ChangesManyWhateverTheirVersion(MemoryStore):
    def change_many(self, changes, *, now):
        stored = self.get_many([before.id for before, _ in changes])
        return super().change_many([(stored.get(job.id, job), change) for job, change in changes], now=now)


@fault("test_a_job_that_is_as_it_was_has_changed_all_the_same")
class ComparesStates(MemoryStore):
    def change(self, before, change, *, now):
        stored = self.get(before.id)
        same = (stored.state, stored.run, stored.priority) == (before.state, before.run, before.priority)
        return super().change(stored if same else before, change, now=now)


@fault("test_a_change_gives_its_fields_and_a_new_rev")
class ForgetsTheHistory(MemoryStore):
    def change(self, before, change, *, now):
        return super().change(before, Change(change.fields), now=now)


@fault("test_an_edited_job_takes_its_new_place")
class LeavesAnEditedJobInItsQueue(MemoryStore):
    def change(self, before, change, *, now):
        fields = {name: value for name, value in change.fields.items() if name != "queue"}
        return super().change(before, Change(fields, change.run), now=now)


@fault("test_counts_are_a_recount_after_every_change")
class CountsDriftAfterACancel(MemoryStore):
    def counts(self, *, now):
        counts = super().counts(now=now)
        for job in self.storage.jobs.values():
            counts.queues[job.queue][State.PENDING] += job.state is State.CANCELLED
        return counts


@fault("test_pending_jobs_that_are_not_due_are_counted")
class CountsAllPendingJobsAsLater(MemoryStore):
    def counts(self, *, now):
        return replace(super().counts(now=now), later=super().counts(now=now).states[State.PENDING])


@fault("test_the_next_due_time_is_that_of_what_is_wanted", "test_a_paused_queue_is_not_claimed_from")
class IsDueInAPausedQueue(MemoryStore):
    def next_due(self, wanted, *, now):
        return min((job.run_at for job in self.storage.jobs.values() if job.state in WAITING), default=None)


@fault("test_what_is_found_is_the_state_at_the_call")
class FindsWhatComesLater(MemoryStore):
    def find(self, query):
        seen = set()
        while job := next((job for job in super().find(query) if job.id not in seen), None):
            seen.add(job.id)
            yield job


@fault("test_what_is_found_is_the_state_at_the_call")
class FindsWhenItIsFirstAskedForAJob(MemoryStore):
    def find(self, query):
        yield from super().find(query)


@fault("test_found_are_running_then_waiting_then_dead_then_finished_ones")
class ListsInTheOrderOfAdding(MemoryStore):
    def _listing_order(self, job):
        return (self.storage.sequence[job.id],)


@fault("test_every_condition_narrows_what_is_found")
class FindsTagsByTheirBeginning(MemoryStore):
    def find(self, query):
        jobs = super().find(replace(query, tag=None, limit=None))
        matching = [j for j in jobs if query.tag is None or any(tag.startswith(query.tag) for tag in j.tags)]
        return iter(matching[: query.limit])


@fault("test_deleted_is_what_is_unchanged_and_not_running")
class DeletesARunningJob(MemoryStore):
    def delete(self, jobs):
        running = [job for job in jobs if self.storage.jobs.get(job.id) == job and job.state is State.PROCESSING]
        for job in running:
            self.storage.drop(job.id)
        return [*(job.id for job in running), *super().delete(jobs)]


@fault("test_deleted_is_what_is_unchanged_and_not_running", "test_a_job_that_is_as_it_was_has_changed_all_the_same")
class DeletesByAnOldCopy(MemoryStore):
    def delete(self, jobs):
        return super().delete([self.storage.jobs.get(job.id, job) for job in jobs])


@fault("test_pruned_is_what_ended_before")
class PrunesTooMuch(MemoryStore):
    def prune(self, *, states, before, limit):
        return super().prune(states=states | {State.FAILED}, before=before, limit=limit)


@fault("test_pruned_is_what_ended_before", "test_the_time_is_what_the_caller_says")
class PrunesWhatIsJustOldEnough(MemoryStore):
    def prune(self, *, states, before, limit):
        return super().prune(states=states, before=before.replace(year=9999), limit=limit)


@fault("test_pruning_stops_at_its_limit")
class PrunesWithoutALimit(MemoryStore):
    def prune(self, *, states, before, limit):
        return super().prune(states=states, before=before, limit=1 << 30)


@fault("test_pauses_are_told_with_their_reasons")
class ForgetsWhyAQueueIsPaused(MemoryStore):
    def pause(self, queue, paused, *, reason="", now):
        super().pause(queue, paused, now=now)


@fault("test_pauses_outlive_their_handle")
class ResumesWhenItIsClosed(MemoryStore):
    def close(self):
        self.storage.paused.clear()
        super().close()


@fault("test_members_are_seen_while_they_are_there")
class FindsALiveMemberLost(MemoryStore):
    def lost(self, *, now):
        return super().lost(now=now) or [(info, []) for info in self.workers()]


@fault("test_a_dead_member_is_lost_with_what_it_held", "test_claims_of_a_member_that_left_are_lost")
class NeverFindsALostMember(MemoryStore):
    def lost(self, *, now):
        return []


@fault("test_the_time_is_what_the_caller_says")
class LosesMembersByTheClock(MemoryStore):
    def lost(self, *, now):
        old = [info for info in self.workers() if abs((now - info.started).days) > 1]
        return super().lost(now=now) + [(info, []) for info in old]


@fault("test_a_lost_member_is_forgotten_when_its_claims_are_back")
class NeverForgetsALostMember(MemoryStore):
    def forget(self, worker):
        return


@fault("test_a_report_replaces_what_is_told")
class IgnoresReports(MemoryStore):
    def report(self, worker, info):
        return


@fault("test_a_watch_wakes_for_what_is_done_elsewhere")
class WakesNobody(MemoryStore):
    def watch(self, wake):
        return True


@fault("test_a_watch_ends_with_its_handle")
class WakesWhoHasClosed(MemoryStore):
    def close(self):
        return


@fault("test_a_watch_is_quiet_while_nothing_is_changed_elsewhere")
class WakesItself(MemoryStore):
    def claim(self, worker, *, wanted, limit, now, ended=()):
        answer = super().claim(worker, wanted=wanted, limit=limit, now=now, ended=ended)
        self.storage.wake()
        return answer


@fault("test_a_handle_may_be_closed_twice")
class ClosesOnce(MemoryStore):
    def close(self):
        if self.storage is None:
            raise StoreUnavailable("closed")
        super().close()
        self.storage = None


@fault("test_everything_is_there_after_all_handles_closed", "test_every_field_is_kept")
class IsEmptyWhenItIsReopened(MemoryStore):
    def __init__(self, storage):
        super().__init__(storage)
        storage.open = getattr(storage, "open", 0) + 1

    def close(self):
        super().close()
        self.storage.open -= 1
        if self.storage.open == 0:
            self.storage.jobs.clear()


@fault("test_every_field_is_kept", "test_only_the_latest_rev_is_changed")
class SharesNothing(MemoryStore):
    def __init__(self, storage):
        super().__init__(MemoryStorage())


@fault("test_processes_at_once_claim_every_job_once")
class LocksNoOtherProcess(FileStore):
    @contextlib.contextmanager
    def locked(self):
        yield


@fault("test_a_killed_writer_leaves_what_it_was_told_is_stored")
class WritesAfterItAnswers(FileStore):
    waiting = b""

    def write(self, data):
        self.waiting, written = data, self.waiting
        if written:
            super().write(written)

    @contextlib.contextmanager
    def read(self):
        kept = {name: value for name, value in vars(self.storage).items() if self.waiting}
        with super().read():
            self.storage.__dict__.update(kept)
            yield


@fault("test_a_process_sees_what_another_one_stored")
class ReadsTheFileOnce(FileStore):
    @contextlib.contextmanager
    def read(self):
        if self.storage.jobs:
            yield
        else:
            with super().read():
                yield


@fault("test_a_killed_writer_leaves_what_it_was_told_is_stored")
class NeverFindsAKilledProcess(FileStore):
    def lost(self, *, now):
        return []
