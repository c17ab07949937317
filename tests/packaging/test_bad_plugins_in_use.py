"""Plugins that go wrong when they are used: no job and no exit code is touched, and each is told by name."""

import json
import os
import time
from datetime import datetime, timedelta

import pytest

from .mischief import REASONS, distribution_of, failed, listed


class TestMakers:
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("failing", "cannot be made: OSError: no such server"),
            ("leaving", "cannot be made: SystemExit: leaving"),
            ("other", "cannot be used: its make gave 'a store', which is no Store"),
        ],
    )
    def test_a_store_that_cannot_be_made_is_told_with_its_plugin(self, mischief, name, why):
        done = mischief.run("--store", f"{name}:", "add", "--", "true", code=6)
        assert f"the store {name!r} of plugin makes (mischief 0.3) {why}" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Traceback" in mischief.run("--debug", "--store", f"{name}:", "status", code=6).stderr

    def test_an_executor_that_cannot_be_made_costs_no_job(self, mischief, home):
        job_id = mischief.run("add", "--", "true", home=home).stdout.strip()
        env = {"JOBQ_EXECUTOR": "failing"}
        done = mischief.run("worker", "start", "--until-empty", env=env, home=home, code=6)
        assert "the executor 'failing' of plugin makes (mischief 0.3) cannot be made: OSError" in done.stderr
        mischief.run("worker", "start", "--until-empty", home=home)
        assert mischief.json("show", "--json", job_id, home=home)["state"] == "completed"

    def test_a_command_that_stumbles_is_its_plugins_fault(self, mischief, home, tmp_path):
        done = mischief.run("stumble", home=home, env={"TMPDIR": str(tmp_path)}, code=6)
        (path,) = tmp_path.iterdir()
        assert "ZeroDivisionError: no luck" in path.read_text()
        assert "jobq: a fault in plugin commands (mischief 0.3) (ZeroDivisionError); the traceback is in" in done.stderr
        assert "Traceback" not in done.stderr
        done = mischief.run("--debug", "stumble", home=home, code=6)
        assert "ZeroDivisionError: no luck\njobq: a fault in plugin commands (mischief 0.3)\n" in done.stderr

    def test_a_handler_that_cannot_be_imported_is_a_failed_attempt(self, mischief, home):
        job_id = mischief.run("add", "--max-attempts", "1", "gone", home=home).stdout.strip()
        mischief.run("worker", "start", "--until-empty", home=home)
        job = mischief.json("show", "--json", job_id, home=home)
        assert job["state"] == "dead"
        assert "mischief.gone" in job["last_error"]


class TestBackoffs:
    DAYS = timedelta(days=2)
    """What the default formula is set to answer: more than a worker waits for."""

    def retried(self, environment, home, backoff):
        """Let a job fail once with this backoff; the job, and what the worker said."""
        env = {
            "JOBQ_BACKOFF": backoff,
            "JOBQ_BACKOFF_INITIAL": "2d",
            "JOBQ_BACKOFF_CAP": "2d",
            "JOBQ_BACKOFF_JITTER": "false",
        }
        job_id = environment.run("add", "--", "false", home=home).stdout.strip()
        done = environment.run("worker", "start", "--until-empty", env=env, home=home)
        assert "Traceback" not in done.stderr
        return environment.json("show", "--json", job_id, home=home), done.stderr

    def waits(self, job):
        return datetime.fromisoformat(job["run_at"]) - datetime.fromisoformat(job["history"][0]["finished"])

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("raising", "failed: ZeroDivisionError: no luck"),
            ("leaving", "failed: SystemExit: 3"),
            ("negative", "answered datetime.timedelta(days=-1"),
            ("nan", "answered nan"),
            ("two-centuries", "answered datetime.timedelta(days=73000)"),
        ],
    )
    def test_one_that_answers_nonsense_is_named_and_the_default_formula_used(self, mischief, home, name, why):
        job, stderr = self.retried(mischief, home, name)
        assert f"jobq: backoff {name} of plugin waits (mischief 0.3) {why}" in stderr
        assert (job["state"], job["attempts"]) == ("failed", 1)
        assert abs(self.waits(job) - self.DAYS) < timedelta(seconds=1)

    def test_a_year_is_a_wait_like_any_other(self, mischief, home):
        job, stderr = self.retried(mischief, home, "year")
        assert "backoff year" not in stderr
        assert abs(self.waits(job) - timedelta(days=365)) < timedelta(seconds=1)

    def test_one_that_gives_up_is_obeyed(self, mischief, home):
        job, _ = self.retried(mischief, home, "none")
        assert (job["state"], job["attempts"]) == ("dead", 1)


class TestNotifiers:
    @pytest.fixture
    def hear(self, mischief, home, tmp_path):
        """Runs jobq with this notifier, and a good one after it; what that one heard."""
        heard = tmp_path / "heard"

        def hear(how, *words):
            env = {"JOBQ_DEAF_HOW": how, "JOBQ_FINE_FILE": str(heard), "MISCHIEF_SIGN": str(hear.sign)}
            return mischief.run(*words, home=home, env=env)

        hear.sign = tmp_path / "sign"
        hear.kinds = lambda: heard.read_text().split()
        return hear

    @pytest.mark.parametrize(("how", "why"), [("raises", "LookupError: nobody is there"), ("leaves", "SystemExit: 3")])
    def test_one_that_raises_is_named_and_changes_nothing(self, mischief, home, hear, how, why):
        added = hear(how, "add", "--", "true")
        worked = hear(how, "worker", "start", "--until-empty")
        assert mischief.json("show", "--json", added.stdout.strip(), home=home)["state"] == "completed"
        for done, kind in ((added, "enqueued"), (worked, "started"), (worked, "completed")):
            assert f"jobq: notifier deaf (mischief 0.3) failed on {kind}: {why}" in done.stderr
            assert "Traceback" not in done.stderr
        assert hear.kinds() == ["enqueued", "started", "completed"]
        assert "in jobq_notify" in hear(how, "--debug", "add", "--", "true").stderr

    def test_one_that_is_slow_is_waited_for(self, mischief, home, hear):
        hear("slow", "add", "--", "true")
        done = hear("slow", "worker", "start", "--until-empty")
        assert "notifier" not in done.stderr
        assert hear.kinds() == ["enqueued", "started", "completed"]

    def test_one_that_hangs_at_the_end_is_named_and_left(self, mischief, home, hear):
        added = hear("hangs", "add", "--", "true")
        named = "jobq: notifier deaf (mischief 0.3) was still busy at the end: 1 event not delivered in time"
        assert named in added.stderr
        assert mischief.json("show", "--json", added.stdout.strip(), home=home)["state"] == "pending"

    def test_one_that_hangs_in_a_worker_is_named_and_no_longer_told_while_the_others_are(self, mischief, home, hear):
        work = f"until [ -e '{hear.sign}' ]; do sleep 0.05; done; sleep 5.1"
        job_id = mischief.run("add", "--shell", work, home=home).stdout.strip()
        worked = hear("hangs", "worker", "start", "--until-empty")
        assert "jobq: notifier deaf (mischief 0.3) took over 5 s for an event and is no longer told" in worked.stderr
        assert mischief.json("show", "--json", job_id, home=home)["state"] == "completed"
        assert hear.kinds() == ["started", "completed"]


class TestRemembered:
    @pytest.fixture
    def remembering(self, mischief, home):
        """Has jobq remember what is installed now, as it does once that has stood for a while."""

        def remember():
            then = time.time() - 60
            for path in (mischief.site, *mischief.site.glob("*/*.py")):
                os.utime(path, (then, then))
            mischief.run("add", "--", "true", home=home)  # makes the home
            mischief.run("status", home=home)
            (path,) = (mischief.path / home / "cache").glob("plugins-*.json")
            return {plugin["name"]: plugin for plugin in json.loads(path.read_text())["plugins"]}

        return remember

    def test_one_that_was_fine_when_it_was_remembered_fails_alone(self, mischief, home, remembering):
        assert remembering()["moody"]["status"] == "ok"
        broken = {"MISCHIEF_MOODY": "1"}
        told = "jobq: plugin moody (mischief 0.3): RuntimeError: not today"
        assert told not in mischief.run("status", home=home, env=broken).stderr, "nobody needs it for that"
        done = mischief.run("add", "--", "true", home=home, env={**broken, "JOBQ_MOODY_ON": "true"})
        assert told in done.stderr
        assert "Traceback" not in done.stderr
        assert failed(mischief, home=home, env=broken)["moody"] == "RuntimeError: not today"
        assert told in mischief.run("status", home=home, env=broken).stderr, "now it is known"
        assert "moody" not in failed(mischief, home=home)

    def test_one_that_is_asked_for_is_imported_whatever_is_remembered(self, mischief, home, remembering):
        assert remembering()["moody"]["status"] == "ok"
        done = mischief.run("-p", "moody", "status", home=home, env={"MISCHIEF_MOODY": "1"}, code=6)
        assert "jobq: plugin moody (mischief 0.3): RuntimeError: not today" in done.stderr

    def test_strict_does_not_rely_on_what_was(self, mischief, home, remembering):
        assert remembering()["moody"]["status"] == "ok"
        env = {"MISCHIEF_MOODY": "1", "JOBQ_PLUGINS_STRICT": "true", "JOBQ_PLUGINS_BLOCK": ",".join(REASONS)}
        assert "moody (mischief 0.3): RuntimeError" in mischief.run("status", home=home, env=env, code=6).stderr

    def test_what_was_upgraded_or_uninstalled_is_seen(self, mischief, home, remembering, make_wheel):
        source = "from jobq import hookimpl\n@hookimpl\ndef jobq_notify(event): pass\n"
        mischief.install(make_wheel(distribution_of("passing", "1.0", {"passing": source})))
        assert remembering()["passing"]["version"] == "1.0"
        mischief.install(make_wheel(distribution_of("passing", "1.1", {"passing": f"raise OSError\n{source}"})))
        assert "jobq: plugin passing (passing 1.1): OSError" in mischief.run("add", "--", "x", home=home).stderr
        assert remembering()["passing"]["version"] == "1.1"
        mischief.uninstall("passing")
        done = mischief.run("add", "--", "true", home=home)
        assert "passing" not in done.stderr
        assert ("passing", "passing") not in listed(mischief, home=home)
        assert (
            "no installed plugin is named 'passing'" in mischief.run("-p", "passing", "list", home=home, code=6).stderr
        )
