"""Behind the real PgBouncer, with a connection for each transaction: all that the command line does, and its loss.

It is no package of Python's, so these are skipped where it is not installed, whatever else has to be tried.
"""

import json
import threading
import time

import pytest

from jobq.errors import StoreError, StoreUnavailable
from jobq.job import State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, success

from .conftest import own_server, wait_for, with_parameter
from .poolers import PROGRAM, PgBouncer, version
from .proxies import Proxy
from .sizes import CRASHES, CUT_STEP, POOLS
from .test_chaos import WITHIN, as_claim, persistently

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")


@pytest.fixture(scope="module")
def server():
    with own_server() as server:
        yield server


@pytest.fixture(params=POOLS, ids=lambda pool: f"{pool[0]} connections, {pool[1]} statements")
def pool(request, server):
    size, statements = request.param
    settings = {"default_pool_size": size, "query_wait_timeout": 20}
    if version(PROGRAM) >= (1, 21):
        settings["max_prepared_statements"] = statements
    with PgBouncer(server.url, **settings) as pool:
        yield pool


@pytest.fixture
def hosts(new_host, pool, schema_of):
    """Two hosts with a worker each."""
    url = with_parameter(pool.url, f"schema={schema_of()}")
    hosts = [new_host("here", url), new_host("there", url)]
    hosts[0]("postgres", "migrate")
    for host in hosts:
        host.start("--count", "2")
    wait_for(lambda: workers(hosts[0]) == 2)
    return hosts


@pytest.fixture(scope="module")
def schema_of():
    """A name that no test had before."""
    numbers = iter(range(1000))
    return lambda: f"pooled_{next(numbers)}"


def workers(host):
    """How many workers the store knows; one that starts, or goes over to another store, is none yet."""
    return len(json.loads(host("worker", "list", "--json")))


def states(host):
    return {state: number for state, number in json.loads(host("status", "--json"))["counts"].items() if number}


def noting(path, count, act="true"):
    """As many jobs, each of which writes a line when it runs."""
    return "".join(
        json.dumps({"id": f"{path.name}-{number}", "command": f"echo {number} >> {path}; {act}"}) + "\n"
        for number in range(count)
    )


def noted(path):
    return sorted(map(int, path.read_text().split())) if path.exists() else []


def test_everything_is_done_behind_it(hosts, tmp_path):
    here, there = hosts
    runs = tmp_path / "runs"
    for number in range(3):
        here("add", "--id", f"single-{number}", "--", "true")
    here("add", "--id", "single-0", "--", "true", code=4)
    here("enqueue", "-", text=noting(runs, 120))
    here("enqueue", "-", text=noting(runs, 120), code=4)
    wait_for(lambda: states(there) == {"completed": 123})
    assert noted(runs) == list(range(120)), "each once"
    assert "behind a pooler, so that workers poll" in here("doctor")
    here("add", "--id", "slow", "--", "sleep", "600")
    wait_for(lambda: states(here).get("processing"))
    assert "has been running" in there("why", "slow")
    assert "slow" in there("list", "--state", "processing")
    there("cancel", "slow")
    wait_for(lambda: states(here) == {"completed": 123, "cancelled": 1})
    here("add", "--id", "bad", "--max-attempts", "1", "--", "false")
    here("wait", "bad", code=7)
    here("retry", "bad")
    here("wait", "bad", code=7)
    assert len(json.loads(here("show", "bad", "--json"))["history"]) == 2
    here("worker", "stop", "--all-hosts", "--wait")
    assert [host.processes[0].wait(WITHIN) for host in hosts] == [0, 0]
    here("doctor")


def test_what_a_killed_worker_ran_is_run_again(hosts, tmp_path):
    here, there = hosts
    runs = tmp_path / "runs"
    here("add", "--id", "rude", "--shell", f"echo $JOBQ_RUN >> {runs}; test $JOBQ_RUN -gt 1 || sleep 600")
    wait_for(lambda: noted(runs))
    worker = json.loads(here("show", "rude", "--json"))["worker"]
    (pid,) = [each["pid"] for each in json.loads(here("worker", "list", "--json")) if each["id"] == worker]
    (victim,) = [host for host in hosts if host.processes[0].pid == pid]
    victim.processes[0].kill()
    victim.processes[0].wait()
    victim.start()
    wait_for(lambda: states(there) == {"completed": 1})
    assert noted(runs) == [1, 2]


def test_nothing_is_lost_when_it_restarts_and_while_it_pauses(hosts, pool, tmp_path):
    here, there = hosts
    runs = tmp_path / "runs"
    here("enqueue", "-", text=noting(runs, 60, act="sleep 0.05"))
    wait_for(lambda: noted(runs))
    pool.stop()
    here("add", "--", "true", code=5)
    here("doctor", code=5)
    pool.start()
    wait_for(lambda: states(there) == {"completed": 60})
    assert sorted(set(noted(runs))) == list(range(60))
    pool.say("PAUSE")
    adding = threading.Thread(target=lambda: here("add", "--id", "patient", "--", "true"))
    adding.start()
    wait_for(lambda: [row for row in pool.say("SHOW POOLS") if row[0] == "postgres" and row[3]])
    pool.say("RESUME")
    adding.join()
    wait_for(lambda: states(there) == {"completed": 61})
    assert [host.processes[0].poll() for host in hosts] == [None, None]


def test_a_queue_moves_behind_it_and_back(new_host, pool, schema_of, tmp_path):
    here = new_host("moving", "json:")
    runs, later = tmp_path / "runs", "".join(json.dumps({"command": "true", "delay": 3600}) + "\n" for _ in range(50))
    here("enqueue", "-", text=later)
    here("enqueue", "-", text=noting(runs, 50))
    worker = here.start()
    wait_for(lambda: noted(runs))
    here("move", "--to", with_parameter(pool.url, f"schema={schema_of()}"))
    wait_for(lambda: states(here) == {"completed": 50, "pending": 50})
    here("add", "--", "true")
    wait_for(lambda: states(here) == {"completed": 51, "pending": 50})
    here("move", "--to", "json:")
    assert states(here) == {"completed": 51, "pending": 50}
    assert noted(runs) == list(range(50)), "each once"
    here("doctor")
    wait_for(lambda: workers(here) == 1)
    here("worker", "stop", "--wait")
    assert worker.wait(WITHIN) == 0


@pytest.mark.timeout(1800)
def test_an_outcome_is_recorded_once_wherever_the_poolers_exchange_is_cut(open_on, server, figure):
    """The pooler tells of the loss in its own words, where the server's system would have reset the connection."""
    proxy = Proxy(server.port)
    direct = with_parameter(server.url, "schema=cut")
    through = server.url.replace(f":{server.port}/", f":{proxy.port}/")
    cuts, unanswered = 0, 0
    with PgBouncer(through, default_pool_size=1) as pool:
        far, near = open_on(address=with_parameter(pool.url, "schema=cut")), open_on("near", address=direct)
        worker = near.join(make_info())
        for side in ("sent", "answered"):
            after = 0
            while True:
                near.add(new(make_job(f"{side}-{after}", priority=1), make_job(f"then-{side}-{after}")), now=START)
                (held,) = persistently(lambda: claim(far, worker, limit=1))
                proxy.cut_after(**{side: after})
                ended = [success(held)]

                def act(ended=ended):
                    return far.claim(worker, wanted=Wanted(), limit=1, now=START, ended=ended)

                try:
                    answer = act()
                except StoreUnavailable:
                    cuts += 1
                    unanswered += near.get(held.job.id).state is State.COMPLETED
                    answer = persistently(act)
                whole = proxy.whole()
                assert answer.refused == [], f"cut after {after} bytes"
                job = near.get(held.job.id)
                assert (job.state, [run.outcome for run in job.history]) == (State.COMPLETED, ["completed"])
                left = near.held(worker)
                assert [each.id for each in left] == [f"then-{side}-{after}"], "claimed by the first call or the second"
                near.finish(worker, [success(as_claim(worker)(each)) for each in left], now=START)
                if whole:
                    break
                after += CUT_STEP
        assert near.check() == []
        worker.close()
    proxy.close()
    figure(
        "F43 a completion behind PgBouncer, cut after each number of bytes",
        f"{cuts} cuts between it and the server, {unanswered} of them after the commit; each outcome recorded once",
    )


@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_when_the_server_behind_it_is_killed(open_on):
    with own_server() as server, PgBouncer(server.url, server_login_retry=0.2) as pool:
        address = with_parameter(pool.url, "schema=crash")
        main, adder = open_on("main", address=address), open_on("adder", address=address)
        worker = main.join(make_info())
        added, ended, over, troubles = [], [], threading.Event(), []

        def add():
            while not over.is_set():
                job = make_job()
                try:
                    adder.add(new(job, generated=True), now=START)
                    added.append(job.id)
                except StoreError:
                    over.wait(0.01)
                except BaseException as trouble:
                    troubles.append(trouble)
                    return

        thread = threading.Thread(target=add)
        thread.start()
        for _ in range(min(CRASHES, 20)):
            before, end = (len(added), len(ended)), time.monotonic() + WITHIN
            while len(added) <= before[0] or len(ended) <= before[1]:
                assert time.monotonic() < end, troubles or "nothing goes on"
                claims = persistently(lambda: claim(main, worker, limit=5)) or list(
                    map(as_claim(worker), persistently(lambda: main.held(worker)))
                )
                done = [success(each) for each in claims]
                assert persistently(lambda done=done: list(main.finish(worker, done, now=START))) == []
                ended += [each.job.id for each in claims]
            server.kill()
            server.start()
        over.set()
        thread.join()
        assert troubles == []
        stored = {job.id: job.state for job in persistently(lambda: list(main.find(Query())))}
        assert [job_id for job_id in added if job_id not in stored] == []
        assert {stored[job_id] for job_id in ended} == {State.COMPLETED}
        assert persistently(main.check) == []
        worker.close()
