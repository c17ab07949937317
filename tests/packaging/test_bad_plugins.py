"""Plugins that are broken as soon as they are looked at: each breaks only itself, and is told by name with its cause."""

import json
import os
import signal
import subprocess
import threading

import pytest

from .mischief import REASONS, do_everything, failed, listed

DEADLINE = 60.0


class TestBroken:
    def test_each_is_listed_and_told_with_its_distribution_and_why(self, mischief, home):
        errors = failed(mischief, home=home)
        assert set(errors) == set(REASONS)
        stderr = mischief.run("plugins", home=home).stderr.splitlines()
        for name, why in REASONS.items():
            assert why in errors[name]
            (line,) = (line for line in stderr if line.startswith(f"jobq: plugin {name} (mischief 0.3): "))
            assert why in line

    def test_every_core_command_works_and_every_good_plugin(self, mischief, home):
        do_everything(mischief, home, doctor=5)
        job_id = mischief.run("add", "greet", home=home).stdout.strip()
        mischief.run("worker", "start", "--until-empty", home=home)
        assert mischief.json("show", "--json", job_id, home=home)["result"] == "hello"
        assert mischief.run("--version").stderr == ""
        assert mischief.run("fine", home=home).stdout == "all is well\n"

    @pytest.mark.parametrize("name", sorted(REASONS))
    def test_only_asking_for_it_fails(self, mischief, name):
        done = mischief.run("-p", name, "status", code=6)
        assert f"jobq: plugin {name} (mischief 0.3): " in done.stderr
        assert REASONS[name] in done.stderr
        assert "Traceback" not in done.stderr

    def test_choosing_what_it_offers_fails(self, mischief, home):
        mischief.run("add", "--", "true", home=home)
        done = mischief.run("worker", "start", "--until-empty", env={"JOBQ_BACKOFF": "same"}, home=home, code=6)
        assert "the backoff 'same' comes with plugin clash-one (mischief 0.3), which cannot be used" in done.stderr
        assert "offered by clash-two (mischief 0.3)" in done.stderr

    def test_a_clash_is_over_when_one_is_blocked(self, mischief, home):
        errors = failed(mischief, "-p", "no:clash-one", "-p", "no:key-two", home=home)
        assert {"clash-one", "clash-two", "key-one", "key-two"} & set(errors) == set()

    @pytest.mark.parametrize("words", [("plugins",), ("status",), ("-p", "raises", "status")])
    def test_the_traceback_is_there_for_whom_asks(self, mischief, home, words):
        done = mischief.run("--debug", *words, home=home, code=6 if "-p" in words else 0)
        assert "Traceback (most recent call last)" in done.stderr
        assert os.path.join("mischief", "raises.py") in done.stderr

    def test_strict_tells_them_all_and_does_nothing(self, mischief, home):
        env = {"JOBQ_PLUGINS_STRICT": "true"}
        for words in (("status",), ("add", "--", "true"), ("worker", "start", "--until-empty")):
            done = mischief.run(*words, env=env, home=home, code=6)
            assert done.stdout == ""
            for name, why in REASONS.items():
                assert f"plugin {name} (mischief 0.3): " in done.stderr
                assert why in done.stderr
        assert mischief.json("status", "--json", home=home)["counts"]["pending"] == 0
        assert set(failed(mischief, env=env, home=home)) == set(REASONS)
        for words, code in (("--version", 0), ("--help", 0), ("doctor", 5)):
            assert mischief.run(words, env=env, home=home, code=code).stdout != ""

    def test_strict_is_content_when_the_broken_ones_are_blocked(self, mischief, home):
        env = {"JOBQ_PLUGINS_STRICT": "true", "JOBQ_PLUGINS_BLOCK": ",".join(REASONS)}
        do_everything(mischief, home, env=env, doctor=5)  # one of its handlers cannot be imported, which is no plugin

    def test_doctor_names_each(self, mischief, home):
        (check,) = (c for c in mischief.json("doctor", "--json", home=home, code=5)["checks"] if c["name"] == "plugins")
        for name in REASONS:
            assert any(problem.startswith(f"plugin {name} (mischief 0.3): ") for problem in check["problems"])


class TestNoise:
    def test_what_is_printed_on_import_is_never_an_answer(self, mischief, home):
        for words in (("status", "--json"), ("plugins", "--json")):
            done = mischief.run(*words, home=home)
            json.loads(done.stdout)
            assert {"one", "two", "three", "four", "five"} <= set(done.stderr.splitlines())
        assert len(mischief.run("add", "--", "true", home=home).stdout.splitlines()) == 1

    def test_what_it_warned_of_is_told_to_whom_asks(self, mischief, home):
        done = mischief.run("plugins", "-v", home=home)
        assert "note: it warned: UserWarning: it is old" in done.stdout
        assert "it is old" not in done.stderr + mischief.run("status", home=home).stderr
        assert listed(mischief, home=home)["prints", "mischief"]["status"] == "ok"


class TestHanging:
    @pytest.fixture
    def hanging(self, mischief, tmp_path):
        """A `status` that waits for an import, and what lets it go on."""
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        environ = {**mischief.environ, "JOBQ_HOME": str(tmp_path / "home"), "MISCHIEF_GATE": str(gate)}
        process = subprocess.Popen(
            [mischief.python.parent / "jobq", "status"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        guard = threading.Timer(DEADLINE, process.kill)
        guard.start()
        yield process, gate
        guard.cancel()
        process.kill()
        process.communicate()

    def until_named(self, process):
        for line in process.stderr:
            if line == "jobq: still loading plugin hangs (mischief 0.3)…\n":
                return
        pytest.fail("it is not named")

    def test_it_is_named_while_the_command_waits(self, hanging):
        process, gate = hanging
        self.until_named(process)
        assert process.poll() is None
        gate.write_text("go on")
        stdout, _ = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0
        assert "pending" in stdout

    def test_it_can_be_interrupted(self, hanging):
        process, _ = hanging
        self.until_named(process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=DEADLINE)
        assert process.returncode == 130
        assert "Traceback" not in stderr

    def test_without_it_nothing_hangs(self, mischief, tmp_path, home):
        gate = tmp_path / "gate"
        os.mkfifo(gate)
        mischief.run("-p", "no:hangs", "status", env={"MISCHIEF_GATE": str(gate)}, home=home)


class TestNames:
    def test_two_distributions_with_one_name_are_both_loaded_and_both_blocked(self, mischief, home):
        twins = [p for (name, _), p in sorted(listed(mischief, home=home).items()) if name == "twin"]
        assert [(p["distribution"], p["status"], p["offers"]) for p in twins] == [
            ("jobq-fine", "ok", ["store jobq_fine-twin"]),
            ("mischief", "ok", ["store mischief-twin"]),
        ]
        plugins = listed(mischief, "-p", "no:twin", home=home)
        assert [p["status"] for (name, _), p in plugins.items() if name == "twin"] == ["blocked", "blocked"]

    def test_a_bundled_one_is_blocked_and_shown_like_any_other(self, mischief, home):
        mischief.run("add", "--", "true", home=home)
        assert listed(mischief, "-p", "no:json", home=home)["json", "jobq"]["status"] == "blocked"
        done = mischief.run("-p", "no:json", "status", home=home, code=6)
        assert "the store 'json'" in done.stderr
        assert "is blocked" in done.stderr

    def test_what_each_offers_is_told_in_detail(self, mischief, home):
        lines = mischief.run("plugins", "-v", home=home).stdout.splitlines()
        (start,) = (number for number, line in enumerate(lines) if line.startswith("fine "))
        told = "\n".join(lines[start : start + 9])
        for detail in (
            "    store fine: forgets it all\n",
            "    command fine: Say that all is well.\n",
            "    setting fine.file: Where events go. (text; default none)\n",
            "    hooks: jobq_commands, jobq_notify, jobq_options, jobq_stores\n",
            "    imported in: ",
        ):
            assert detail in told

    def test_what_is_installed_can_be_pinned(self, mischief, home):
        version = mischief.run("--version").stdout.split()[1]
        done = mischief.run("plugins", "--requirements", home=home)
        assert done.stdout.splitlines() == [f"jobq=={version}", "jobq-fine==2.1", "mischief==0.3"]
        blocked = [f"no:{name}" for name in ("json", "subprocess", "exponential", "log", "fine", "twin")]
        words = [word for name in blocked for word in ("-p", name)]
        done = mischief.run(*words, "plugins", "--requirements", home=home)
        assert done.stdout.splitlines() == [f"jobq=={version}", "mischief==0.3"]
