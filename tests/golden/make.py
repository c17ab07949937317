"""Writes the store of one golden directory, and what it holds: `python make.py DIRECTORY [NOTICE]`, with the jobq in use.

There is something in every file: the archive, the sorted run and the journal, with jobs in every state, jobs with every
field, a paused queue, and fields that this jobq does not know. NOTICE is the state of a notice that the store then has.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import jobq_json
from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import Job
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new

(PROVIDER,) = jobq_json.jobq_stores()
UNKNOWN = {"colour": {"name": "blue", "of": [1, None, "é"]}, "shape": "round"}
WORKER = {"host": "host.example.org", "boot_id": "00000000-0000-0000-0000-000000000000", "version": "0.1.0"}


def main(directory, notice=None):
    home = directory.absolute()
    store = PROVIDER.make(make_settings(), make_context(home))
    presence = store.join(make_info("worker0000000001", **WORKER))

    def add(*jobs):
        store.add(new(*jobs), now=START)

    def work(kind, minutes, **fields):
        now = START + timedelta(minutes=minutes)
        (claim,) = store.claim(presence, wanted=Wanted(queues=("work",)), limit=1, now=now).claims
        outcome = Outcome(kind=kind, finished=now + timedelta(seconds=1.5), **fields)
        change = lifecycle.after(claim, outcome, now=now, delay=lambda *_: timedelta(seconds=8))
        store.finish(presence, [Ended(claim, change)], now=now)

    def round_of(name, minutes):
        """A job in each of the states that a worker brings about, and one that was cancelled."""
        add(make_job(f"{name}-completed", queue="work", handler="report", payload={"é\n": [1.5, None]}))
        work(Kind.SUCCESS, minutes, result={"pages": 7, "of": "Grüße"})
        add(make_job(f"{name}-dead", queue="work", command=["false", "--", "a b"], max_attempts=1))
        work(Kind.FAILURE, minutes, exit_code=1, reason="exit code 1", tail="last words\n")
        add(make_job(f"{name}-failed", queue="work"))
        work(Kind.TIMEOUT, minutes, reason="timeout")
        add(make_job(f"{name}-cancelled"))
        job = store.get(f"{name}-cancelled")
        store.change(job, lifecycle.cancel(job, now=START), now=START)
        add(
            make_job(
                f"{name}-full",
                command="make && make install",
                queue="night",
                priority=7,
                run_at=START + timedelta(days=1),
                max_attempts=9,
                timeout=timedelta(seconds=1.5),
                cwd="/srv/é",
                env={"LANG": "C.UTF-8", "EMPTY": ""},
                tags=("a", "b"),
                on_lost="dead",
                retry_on=(1, "3-5", "timeout"),
                no_retry_on=(255,),
                meta={"web.user": 1},
            )
        )
        add(make_job(f"{name}-alone", losses=2), make_job(f"{name}-plain", priority=-3))
        known = make_job(f"{name}-unknown", queue="new").record()
        add(Job.from_record(known | UNKNOWN))

    round_of("old", 1)
    store.access.compact()
    round_of("new", 2)
    add(make_job("running", queue="work"), make_job("deleted"))
    store.delete([store.get("deleted")])
    store.claim(presence, wanted=Wanted(queues=("work",)), limit=1, now=START)
    store.pause("night", True, reason="until the disk is replaced", now=START)
    jobs = [job.record() for job in store.find(Query())]
    counts = store.counts(now=START)
    held = {
        "jobs": jobs,
        "counts": {state: number for state, number in sorted(counts.states.items()) if number},
        "paused": counts.paused,
    }
    if notice is not None:
        from jobq.notices import Notice  # older versions have none

        store.post(Notice(state=notice, url="json:new"), before=store.notice(), now=START)
        held["notice"] = notice
    presence.close()
    store.close()
    for lock in ("queue.lock", "compact.lock", "bell"):
        (home / "queue" / lock).unlink(missing_ok=True)
    (home / "workers").rmdir()
    (home / "held.json").write_text(json.dumps(held, indent=1) + "\n", encoding="ascii")


main(Path(sys.argv[1]), *sys.argv[2:])
