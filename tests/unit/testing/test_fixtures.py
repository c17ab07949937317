"""The fixtures and helpers for tests of plugins and of programs that use jobq."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from jobq import Kind, Option, Outcome, Provider, Queue, State, hookimpl
from jobq.clock import Wake
from jobq.errors import InvalidInput, PluginError
from jobq.progress import Progress
from jobq.testing import (
    START,
    Failed,
    FakeClock,
    InlineQueue,
    RecordingContext,
    Snoozed,
    assert_enqueued,
    run_now,
)

pytest_plugins = ["jobq.testing.fixtures"]


class TestHome:
    def test_the_home_is_private_and_what_every_queue_opens(self, jobq_home):
        assert jobq_home.stat().st_mode & 0o777 == 0o700
        with Queue.open() as queue:
            queue.enqueue(command="true", id="one")
        assert (jobq_home / "queue").is_dir()

    def test_nothing_else_in_the_environment_says_anything(self, monkeypatch, request):
        monkeypatch.setenv("JOBQ_STORE", "nonsense:")
        home = request.getfixturevalue("jobq_home")
        assert {name for name in os.environ if name.startswith("JOBQ_")} == {"JOBQ_HOME"}
        assert os.environ["JOBQ_HOME"] == str(home)


class TestCommandLine:
    @pytest.mark.parametrize("process", [False, True])
    def test_it_gives_the_exit_code_and_what_was_said(self, jobq_cli, process):
        answer = jobq_cli("--quiet", "add", "--id", "one", "--", "echo", "naïve ☃", process=process)
        assert (answer.code, answer.stdout, answer.stderr) == (0, "one\n", "")
        assert jobq_cli("show", "--json", "one", process=process).json["command"] == ["echo", "naïve ☃"]
        answer = jobq_cli("show", "missing", code=3, process=process)
        assert (answer.code, answer.stdout) == (3, "")
        assert "no job 'missing'" in answer.stderr
        jobq_cli("enqueue", "-", stdin='{"id": "two", "command": "true"}', process=process)
        assert [job["id"] for job in jobq_cli("list", "--json", process=process).json] == ["one", "two"]

    def test_another_exit_code_than_expected_fails_with_what_was_said(self, jobq_cli):
        with pytest.raises(AssertionError, match=r"(?s)jobq show missing ended with 3 instead of 0.*no job"):
            jobq_cli("show", "missing")
        assert jobq_cli("show", "missing", code=None).code == 3

    def test_a_worker_in_this_process_runs_jobs_and_leaves_its_signals(self, jobq_cli):
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        streams = sys.stdin, sys.stdout, sys.stderr
        jobq_cli("add", "--id", "one", "--", "sh", "-c", r"printf 'a\377'")
        jobq_cli("worker", "start", "--until-empty")
        assert jobq_cli("logs", "one").stdout_bytes == b"a\xff"
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
        assert (sys.stdin, sys.stdout, sys.stderr) == streams


class Extra:
    """A plugin that is an object of this module."""

    @hookimpl
    def jobq_options(self):
        return [Option(name="extra.size", kind="size", default=7, help="A size.")]

    @hookimpl
    def jobq_backoffs(self):
        return [Provider(name="extra", summary="none", make=lambda settings, context: None)]


class TestPlugins:
    def test_an_object_becomes_a_plugin(self, plugins, jobq_cli):
        assert plugins.register(Extra(), "extra") == "extra"
        listed = {plugin["name"]: plugin for plugin in jobq_cli("plugins", "--json").json}
        assert listed["extra"]["status"] == "ok"
        assert listed["extra"]["offers"] == ["backoff extra", "setting extra.size"]
        assert {"json", "subprocess"} <= set(listed), "those that are installed are there"
        assert jobq_cli("config", "get", "extra.size").stdout == "7\n"

    def test_it_is_checked_as_every_other_one(self, plugins, jobq_cli):
        plugins.register(SimpleNamespace(jobq_nonsense=hookimpl(lambda: None)), "odd")
        plugins.register(Extra())
        answer = jobq_cli("-p", "odd", "status", code=6)
        assert "jobq_nonsense, which this version of jobq does not know" in answer.stderr

    def test_no_remembered_scan_hides_it_and_none_remembers_it(self, jobq_cli, jobq_home, monkeypatch, request):
        monkeypatch.setattr("jobq.plugincache._SETTLED_SECONDS", -1e9)
        jobq_cli("plugins")
        (remembered,) = (jobq_home / "cache").iterdir()
        before = remembered.read_bytes()
        request.getfixturevalue("plugins").register(Extra(), "extra")
        for _ in range(2):
            assert "extra" in {plugin["name"] for plugin in jobq_cli("plugins", "--json").json}
        assert remembered.read_bytes() == before


class TestEvents:
    def test_they_are_kept_in_order(self, events, jobq_cli):
        jobq_cli("add", "--id", "one", "--max-attempts", "1", "--", "false")
        jobq_cli("worker", "start", "--until-empty")
        jobq_cli("retry", "one")
        assert events.kinds("one") == ["enqueued", "started", "dead", "retried"]
        assert events.kinds("two") == []
        assert [event.job.id for event in events] == ["one"] * len(events)

    def test_one_that_comes_later_is_waited_for(self, events, jobq_home):
        with Queue.open() as queue:
            job = queue.enqueue(command="true")
            assert events.wait("enqueued", job.id).job == job

    def test_one_that_does_not_come_is_told(self, events, monkeypatch, jobq_cli):
        monkeypatch.setattr("jobq.testing.listening.TOLD_WITHIN", 0.01)
        jobq_cli("add", "--id", "one", "--", "true")
        with pytest.raises(AssertionError, match="dead one was not announced; there was: enqueued one"):
            events.wait("dead", "one")


class TestClock:
    def test_a_wait_that_is_held_lasts_until_another_thread_moves_the_clock(self):
        clock, answers = FakeClock(held=True), []
        with Wake() as bell:
            thread = threading.Thread(target=lambda: answers.append((clock.wait(bell, 5), clock.monotonic())))
            thread.start()
            until(lambda: clock.waiting == 1)
            clock.advance(4.5)
            clock.advance(0.25)
            assert answers == []
            clock.advance(0.25)
            thread.join()
            assert (answers, clock.waiting) == ([(False, 5.0)], 0)

    def test_a_wait_that_is_held_ends_with_the_bell(self):
        clock, answers = FakeClock(held=True), []
        with Wake() as bell:
            thread = threading.Thread(target=lambda: answers.append(clock.wait(bell, None)))
            thread.start()
            until(lambda: clock.waiting == 1)
            bell.ring()
            thread.join()
            assert answers == [True]
            assert clock.now() == START

    def test_nobody_waits_for_ever_for_a_clock_that_nobody_moves(self, monkeypatch):
        monkeypatch.setattr("jobq.testing.clock.HELD_SECONDS", 0.01)
        with Wake() as bell, pytest.raises(AssertionError, match="nobody let time go by"):
            FakeClock(held=True).wait(bell, 5)

    def test_the_fixture_is_a_fake_one(self, clock):
        assert clock.now() == START


def until(condition):
    """Ask again until it is so."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def resize(job, context):
    context.progress(1, 2, "half")
    context.log.info("width %d", job.payload["width"])
    context.enqueue(handler="mail", payload={"to": "ada"})
    if job.payload["width"] > 4000:
        raise ValueError("no such size")
    return {"width": job.payload["width"], "attempt": context.attempt, "run": context.run}


class TestRunNow:
    def test_the_result_is_that_of_the_handler(self):
        assert run_now(resize, {"width": 5}) == {"width": 5, "attempt": 1, "run": 1}

    def test_what_it_raises_is_raised(self):
        with pytest.raises(ValueError, match="no such size"):
            run_now(resize, {"width": 5000})

    def test_what_it_asked_of_its_context_is_kept(self, caplog):
        context = RecordingContext(attempt=3, run=7)
        assert run_now(resize, {"width": 5}, context=context) == {"width": 5, "attempt": 3, "run": 7}
        assert context.progressed == [Progress(1, 2, "half")]
        assert context.logged == ["width 5"]
        assert "width 5" in caplog.text
        (job,) = context.enqueued
        assert (job.handler, job.payload) == ("mail", {"to": "ada"})
        assert (context.job.state, context.job.attempts, context.job.run) == (State.PROCESSING, 2, 7)

    def test_payload_and_result_go_through_json(self):
        assert run_now(lambda job, context: [job.payload, (1, 2)], {"a": [None]}) == [{"a": [None]}, [1, 2]]
        assert run_now(lambda job, context: job.payload) == {}
        for result in ({1, 2}, float("nan"), b"x", object()):
            with pytest.raises((TypeError, ValueError)):
                run_now(lambda job, context, result=result: result)
        with pytest.raises(ValueError, match="result-limit"):
            run_now(lambda job, context: "x" * (1 << 20))
        deep = []
        for _ in range(200):
            deep = [deep]
        with pytest.raises(ValueError, match="deeper than 100"):
            run_now(lambda job, context: deep)

    def test_fields_are_those_of_a_job_and_are_checked(self):
        def handler(job, context):
            return [job.queue, list(job.tags), context.deadline == START + timedelta(seconds=5)]

        assert run_now(handler, queue="mail", tags=["a"], timeout=5) == ["mail", ["a"], True]
        with pytest.raises(InvalidInput):
            run_now(handler, colour="red")
        with pytest.raises(InvalidInput):
            run_now(lambda job, context: context.enqueue(handler="x", priority=5000))

    def test_a_snooze_and_a_failure_end_it(self):
        with pytest.raises(Snoozed) as snoozed:
            run_now(lambda job, context: context.snooze(2.5))
        assert snoozed.value.delay == timedelta(seconds=2.5)
        with pytest.raises(Failed, match="no such customer") as failed:
            run_now(lambda job, context: context.fail("no such customer\nat all", retry=True))
        assert (failed.value.reason, failed.value.retry) == ("no such customer", True)
        with pytest.raises(ValueError, match="is none"):
            run_now(lambda job, context: context.snooze(-1))

    def test_an_attempt_may_have_been_asked_to_stop(self):
        def handler(job, context):
            return context.cancelled()

        assert run_now(handler) is False
        assert run_now(handler, context=RecordingContext(stopped=True)) is True

    def test_an_async_handler_is_run_to_its_end(self):
        async def handler(job, context):
            await asyncio.sleep(0)
            return job.payload

        assert run_now(handler, [1]) == [1]

    def test_leaving_with_0_is_a_success_and_with_another_code_none(self):
        assert run_now(lambda job, context: sys.exit()) is None
        assert run_now(lambda job, context: sys.exit(0)) is None
        with pytest.raises(SystemExit):
            run_now(lambda job, context: sys.exit(3))


class TestInlineQueue:
    def test_a_job_has_run_when_it_is_enqueued(self, inline_queue):
        inline_queue.register(resize)
        inline_queue.register(lambda job, context: job.payload["to"], "mail")
        job = inline_queue.enqueue(handler="resize", payload={"width": 5})
        assert (job.state, job.result) == (State.COMPLETED, {"width": 5, "attempt": 1, "run": 1})
        (mail,) = assert_enqueued(inline_queue, handler="mail")
        assert (mail.state, mail.result) == (State.COMPLETED, "ada"), "what a handler enqueues runs too"
        assert [context.logged for context in inline_queue.contexts] == [["width 5"], []]

    def test_a_handler_that_nobody_registered_is_refused(self, inline_queue):
        with pytest.raises(InvalidInput):
            inline_queue.enqueue(handler="missing")

    def test_a_failure_is_tried_again_when_it_is_due(self, inline_queue, clock):
        def flaky(job, context):
            if context.attempt == 1:
                raise ValueError("not yet\nplease")
            return "done"

        inline_queue.register(flaky)
        job = inline_queue.enqueue(handler="flaky")
        assert (job.state, job.last_error.splitlines()[0]) == (State.FAILED, "ValueError: not yet")
        assert [type(error) for error in inline_queue.raised] == [ValueError]
        inline_queue.run_due()
        assert inline_queue.get(job.id).state is State.FAILED
        clock.advance(10)
        inline_queue.run_due()
        assert inline_queue.get(job.id).result == "done"

    def test_what_is_due_later_waits(self, inline_queue, clock):
        inline_queue.register(resize)
        job = inline_queue.enqueue(handler="resize", payload={"width": 1}, delay=60)
        assert job.state is State.PENDING
        clock.advance(60)
        inline_queue.register(lambda job, context: None, "mail")
        inline_queue.run_due()
        assert inline_queue.get(job.id).state is State.COMPLETED

    def test_a_snooze_and_a_failure_without_retry_are_what_they_are(self, inline_queue):
        inline_queue.register(lambda job, context: context.snooze(60), "sleepy")
        inline_queue.register(lambda job, context: context.fail("no use"), "hopeless")
        inline_queue.register(lambda job, context: sys.exit(3), "leaving")
        sleepy, hopeless = inline_queue.enqueue(handler="sleepy"), inline_queue.enqueue(handler="hopeless")
        assert (sleepy.state, sleepy.attempts) == (State.PENDING, 0)
        assert (hopeless.state, hopeless.last_error) == (State.DEAD, "no use")
        assert inline_queue.enqueue(handler="leaving", max_attempts=1).state is State.DEAD

    def test_a_program_that_opens_its_queue_gets_this_one(self, inline_queue):
        inline_queue.register(lambda job, context: 1, "one")
        with Queue.open() as queue:
            job = queue.enqueue(handler="one")
        with Queue.open(store="json:") as queue:
            assert queue.get(job.id).result == 1
        assert job.state is State.COMPLETED

    def test_commands_are_not_started(self, inline_queue, tmp_path, jobq_home):
        job = inline_queue.enqueue(command=["touch", str(tmp_path / "made")])
        assert (job.state, job.last_error) == (State.DEAD, "an inline queue starts no commands")
        assert not (tmp_path / "made").exists()
        queue = InlineQueue(jobq_home, commands=lambda job: Outcome(kind=Kind.SUCCESS, exit_code=0))
        assert queue.enqueue(command="anything").state is State.COMPLETED
        queue.close()

    def test_handlers_of_config_toml_are_there(self, jobq_home, tmp_path, monkeypatch, request):
        (tmp_path / "shop_inline.py").write_text("def sell(job, context):\n    return 'sold'\n")
        monkeypatch.syspath_prepend(tmp_path)
        (jobq_home / "config.toml").write_text('[handlers]\nsell = "shop_inline:sell"\n')
        queue = request.getfixturevalue("inline_queue")
        assert queue.enqueue(handler="sell").result == "sold"

    def test_its_changes_are_announced(self, events, inline_queue):
        inline_queue.register(lambda job, context: 1, "one")
        job = inline_queue.enqueue(handler="one")
        events.wait("completed", job.id)
        assert events.kinds(job.id) == ["enqueued", "started", "completed"]


class TestAssertEnqueued:
    def test_it_answers_with_the_jobs_that_match(self, jobq_home):
        with Queue.open() as queue:
            first = queue.enqueue(command=["a", "b"], tags=["x"])
            second = queue.enqueue(command="c", queue="mail", priority=3)
            assert assert_enqueued(queue) == [second, first]
            assert assert_enqueued(queue, command=["a", "b"]) == [first]
            assert assert_enqueued(queue, tags=["x"], count=1) == [first]
            assert assert_enqueued(queue, queue="mail", priority=3, state="pending") == [second]
            assert assert_enqueued(queue, handler="h", count=0) == []

    def test_a_failure_tells_what_there_is(self, jobq_home):
        with Queue.open() as queue:
            with pytest.raises(AssertionError, match="no job with any; there is: nothing"):
                assert_enqueued(queue)
            queue.enqueue(command="c", id="one", queue="mail")
            queue.enqueue(handler="h", id="two", allow_unknown_handler=True, payload=[1])
            expected = r"(?s)no job with queue='post'; there is:.*one: command='c', queue='mail'.*"
            with pytest.raises(AssertionError, match=expected + r"two: handler='h', payload=\[1\], queue='default'"):
                assert_enqueued(queue, queue="post")
            with pytest.raises(AssertionError, match="2 jobs instead of 1 with any"):
                assert_enqueued(queue, count=1)
            with pytest.raises(AssertionError, match="no job instead of 2 with priority=9"):
                assert_enqueued(queue, count=2, priority=9)
            with pytest.raises(TypeError, match="no field 'colour'"):
                assert_enqueued(queue, colour="red")


def test_pytest_alone_brings_no_fixture_and_the_package_no_pytest():
    code = "import sys, jobq.testing; assert not {'pytest', 'hypothesis'} & set(sys.modules), 'brought along'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plugin_that_is_refused_is_refused_by_name(plugins, jobq_home):
    plugins.register(Extra(), "one")
    plugins.register(Extra(), "two")
    with Queue.open(backoff="extra") as queue, pytest.raises(PluginError, match="one"):
        queue.run_until_empty()
