"""`config`, `plugins`, `handlers`, `doctor`, `init`, `completion` and `demo`, as real processes."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib

import pytest


@pytest.fixture
def config(jobq):
    """The configuration file of the test's home; the home is there."""
    jobq.home.mkdir(mode=0o700)
    return jobq.home / "config.toml"


class TestConfig:
    def test_set_writes_a_private_file_in_a_new_home_and_says_so_on_stderr(self, jobq):
        answer = jobq("config", "set", "max_attempts", "5")
        assert answer.out == b""
        assert answer.stderr.splitlines()[0] == "max_attempts=5"
        path = jobq.home / "config.toml"
        assert tomllib.loads(path.read_text()) == {"max-attempts": 5}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert jobq("config", "get", "max-attempts").stdout == "5\n"
        assert jobq("config", "path").stdout == f"{path}\n"

    def test_list_prints_every_setting_with_underscores(self, jobq):
        lines = jobq("config", "list").stdout.splitlines()
        assert {"max_attempts=3", "backoff_initial=2s", "timeout=none", "plugins.strict=false", "log.file=none"} <= set(
            lines
        )
        assert not jobq.home.exists()

    def test_list_as_json_has_the_same_keys_with_seconds_and_sources(self, jobq):
        jobq("config", "set", "kill-grace", "1m")
        lines = jobq("config", "list").stdout.splitlines()
        values = jobq("config", "list", "--json").json
        assert list(values) == [line.partition("=")[0] for line in lines]
        assert (values["kill_grace"], values["timeout"], values["backoff_jitter"]) == (60, None, True)
        told = jobq("config", "list", "--json", "-v", env={"JOBQ_MAX_ATTEMPTS": "9"}).json
        assert told["max_attempts"] == {"value": 9, "source": "JOBQ_MAX_ATTEMPTS"}
        assert told["kill_grace"] == {"value": 60, "source": "config.toml"}
        assert told["timeout"]["source"] == "default"

    def test_what_list_prints_can_be_set_again(self, jobq):
        listed = jobq("config", "list", "--json").json
        for key in ("backoff_cap", "capture_env", "payload_limit", "backoff_jitter"):
            jobq("config", "set", key, jobq("config", "get", key).stdout.rstrip("\n"))
        assert jobq("config", "list", "--json").json == listed

    def test_comments_and_layout_stay(self, jobq, config):
        config.write_text('# mine\nmax_retries = 4 # four\n\n[log]\n# where\nfile = "a"\n')
        config.chmod(0o600)
        jobq("config", "set", "max-attempts", "7")
        jobq("config", "set", "log.level", "error")
        jobq("config", "set", "timeout", "90")
        text = config.read_text()
        assert "# mine\nmax_retries = 7 # four\n" in text
        assert '# where\nfile = "a"\n' in text
        assert tomllib.loads(text) == {"max_retries": 7, "timeout": 90, "log": {"file": "a", "level": "error"}}

    def test_a_setting_under_several_spellings_becomes_one(self, jobq, config):
        config.write_text("max_retries = 1\nmax-attempts = 2\nmax_attempts = 3\n")
        jobq("config", "set", "max-retries", "7")
        assert list(tomllib.loads(config.read_text()).values()) == [7]
        jobq("config", "unset", "max_attempts")
        assert config.read_text() == ""
        assert jobq("config", "get", "max_attempts").stdout == "3\n"

    @pytest.mark.parametrize(
        ("key", "value", "code", "why"),
        [
            ("max-attempts", "many", 1, "must be a whole number"),
            ("max-attempts", "0", 1, "at least 1"),
            ("backoff-jitter", "perhaps", 1, "true or false"),
            ("timeout", "soon", 1, "must be a duration"),
            ("output-limit", "1", 1, "at least 4096"),
            ("durability", "some", 1, "full or normal"),
            ("max-attemts", "1", 3, "did you mean max-attempts"),
            ("nothing.of.it", "1", 3, "no setting 'nothing.of.it'"),
            ("handlers.resize", "images", 1, "must be MODULE:FUNCTION"),
            ("handlers.a b", "a:b", 1, "no name of a handler"),
        ],
    )
    def test_what_is_wrong_is_refused_and_nothing_written(self, jobq, key, value, code, why):
        answer = jobq("config", "set", key, value, code=code)
        assert why in answer.stderr
        assert not jobq.home.exists()

    def test_keys_that_are_not_there(self, jobq):
        for words in (("get", "nope"), ("unset", "nope"), ("get", "handlers.nope")):
            assert "nope" in jobq("config", *words, code=3).stderr
        assert "was not set" in jobq("config", "unset", "timeout").stderr

    def test_an_invalid_file_is_told_and_left_as_it_is(self, jobq, config):
        config.write_text("max-attempts = \n")
        for words in (("list",), ("set", "timeout", "1")):
            answer = jobq("config", *words, code=1)
            assert "is no valid TOML" in answer.stderr
            assert "Traceback" not in answer.stderr
        assert config.read_text() == "max-attempts = \n"

    def test_wrong_values_in_the_file_can_be_seen_and_mended(self, jobq, config):
        config.write_text('max-attempts = "x"\ntimeout = 5\ncolour = "red"\n\n[handlers]\na = 1\n')
        answer = jobq("config", "list", code=1)
        assert "timeout=5s" in answer.stdout.splitlines()
        for why in ("max-attempts (config.toml): 'x' must be a whole number", "'colour'", "handlers.a"):
            assert why in answer.stderr
        assert "max-attempts" in jobq("config", "get", "max-attempts", code=1).stderr
        jobq("config", "set", "max-attempts", "2")
        jobq("config", "unset", "colour")
        jobq("config", "set", "handlers.a", "b:c")
        assert jobq("config", "list").stderr == ""

    def test_handlers_with_dots_in_their_names(self, jobq):
        jobq("config", "set", "handlers.mail.send", "mail:send")
        assert jobq("config", "get", "handlers.mail.send").stdout == "mail:send\n"
        assert "handlers.mail.send=mail:send" in jobq("config", "list").stdout
        assert jobq("handlers", "--json").json == [
            {"name": "mail.send", "distribution": "config.toml", "target": "mail:send"}
        ]
        jobq("config", "unset", "handlers.mail.send")
        assert jobq("handlers", "--json").json == []

    def test_passwords_are_not_shown(self, jobq, config):
        config.write_text('store = "postgresql://me:canary@db/jobs"\n')
        for words in (("get", "store"), ("list",), ("list", "--json"), ("list", "-v")):
            answer = jobq("config", *words)
            assert "canary" not in answer.stdout
            assert "postgresql://me:***@db/jobs" in answer.stdout

    def test_a_store_that_nothing_offers_is_refused_when_it_is_set_and_named_when_it_is_needed(self, jobq, config):
        assert "no plugin offers the store 'moon'" in jobq("config", "set", "store", "moon:", code=6).stderr
        config.write_text('store = "moon:"\n')
        assert "'moon'" in jobq("add", "--", "true", code=6).stderr
        jobq("config", "unset", "store")
        jobq("add", "--", "true")

    def test_a_variable_that_hides_what_was_set_is_named(self, jobq):
        answer = jobq("config", "set", "max-attempts", "5", env={"JOBQ_MAX_ATTEMPTS": "9"})
        assert "JOBQ_MAX_ATTEMPTS is set" in answer.stderr

    def test_a_link_in_the_place_of_the_file_is_refused(self, jobq, config, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("")
        config.symlink_to(victim)
        assert "not a regular file" in jobq("config", "set", "timeout", "1", code=5).stderr
        assert victim.read_text() == ""

    def test_changes_at_the_same_time_are_all_kept(self, jobq, config):
        keys = ("timeout", "kill-grace", "stop-grace", "backoff-cap")
        started = [jobq.start("config", "set", key, "7") for key in keys]
        assert [process.wait(30) for process in started] == [0] * len(keys)
        assert tomllib.loads(config.read_text()) == dict.fromkeys(keys, 7)


def troubled(jobq, *args, code=5, **options):
    """The checks of `doctor` that are not content, with their problems."""
    report = jobq(*args, "doctor", "--json", code=code, **options).json
    assert report["ok"] == (code == 0)
    return {check["name"]: "\n".join(check["problems"]) for check in report["checks"] if not check["ok"]}


class TestDoctor:
    def test_all_is_well_with_a_home_in_use_and_with_none(self, jobq):
        assert troubled(jobq, code=0) == {}
        assert not jobq.home.exists()
        jobq.add("--", "true")
        jobq.run_all()
        assert troubled(jobq, code=0) == {}

    def test_one_line_a_check(self, jobq):
        jobq.add("--", "true")
        lines = jobq("doctor").stdout.splitlines()
        assert {line.split()[0] for line in lines} == {"ok"}
        assert any("store:" in line and "jobs: 1" in line for line in lines)

    def test_it_changes_nothing(self, jobq, config):
        config.write_text("timeout = 1\n")
        config.chmod(0o600)

        def content():
            paths = [path for path in jobq.home.rglob("*") if "cache" not in path.parts]
            return {path: path.read_bytes() if path.is_file() else None for path in paths}

        before = content()
        jobq("doctor")
        assert content() == before

    def test_files_that_others_may_read_or_that_are_no_files(self, jobq):
        jobq.add("--", "true")
        (jobq.home / "note").write_text("")
        (jobq.home / "note").chmod(0o644)
        (jobq.home / "link").symlink_to("/etc/passwd")
        problems = troubled(jobq)["permissions"]
        assert f"chmod 600 {jobq.home / 'note'}" in problems
        assert f"{jobq.home / 'link'} is neither a file nor a directory" in problems

    def test_a_home_open_to_others(self, jobq, config):
        jobq.home.chmod(0o755)
        assert "chmod 700" in troubled(jobq)["home"]

    def test_a_configuration_that_is_wrong(self, jobq, config):
        config.write_text('max-attempts = "x"\nstore = "moon:"\nhandlers-path = ["nowhere"]\n')
        config.chmod(0o600)
        problems = troubled(jobq)
        assert "whole number" in problems["settings"]
        assert "'moon'" in problems["plugins"]
        config.write_text('handlers-path = ["nowhere"]\n')
        assert set(troubled(jobq)) == {"handlers"}

    def test_a_damaged_store(self, jobq):
        jobq.add("--", "true")
        for path in (jobq.home / "queue").rglob("*"):
            if path.is_file() and path.stat().st_size:
                path.write_bytes(b"\0" * path.stat().st_size)
        assert "store" in troubled(jobq)

    def test_a_worker_that_was_killed(self, jobq, start_worker, eventually):
        worker = start_worker()
        job = jobq.add("--", "sleep", "60")
        eventually(lambda: jobq.state(job) == "processing")
        worker.kill()
        worker.wait()
        assert "is gone" in troubled(jobq)["workers"]
        assert jobq.state(job) == "processing"
        jobq("cancel", job)
        assert troubled(jobq, code=0) == {}

    def test_files_from_the_future(self, jobq):
        jobq.add("--", "true")
        os.utime(jobq.home / "queue", (4e9, 4e9))
        assert "the clock was set back" in troubled(jobq)["clock"]


class TestPlugins:
    def test_they_are_listed_for_people_and_programs(self, jobq):
        lines = jobq("plugins").stdout.splitlines()
        assert [line.split()[0] for line in lines][:2] == ["exponential", "json"]
        (json_plugin,) = (plugin for plugin in jobq("plugins", "--json").json if plugin["name"] == "json")
        assert set(json_plugin) == {"name", "distribution", "version", "status", "error", "import_ms", "offers"}
        assert (json_plugin["status"], json_plugin["offers"]) == ("ok", ["store json"])

    def test_more_is_said_when_asked(self, jobq):
        assert "hooks: jobq_stores" in jobq("plugins", "-v").stdout

    def test_a_command_of_a_plugin_is_refused_as_a_core_command_is_where_the_home_is_unsafe(self, jobq, config):
        jobq.home.chmod(0o777)
        for words in (["report"], ["status"]):
            refused = jobq(*words, code=5).stderr
            assert f"{jobq.home} is open to other users" in refused
            assert "No such command" not in refused
        shown = jobq("--help")
        assert "worker" in shown.stdout
        assert "is open to other users" in shown.stderr

    @pytest.mark.parametrize(
        "trouble", ["open home", "invalid file", "wrong setting", "untrusted home", "blocked by setting"]
    )
    def test_they_are_listed_whatever_is_broken(self, jobq, config, trouble):
        env, cwd = {}, None
        if trouble == "open home":
            jobq.home.chmod(0o777)
        elif trouble == "invalid file":
            config.write_text("[")
        elif trouble == "wrong setting":
            config.write_text("max-attempts = 0\n")
        elif trouble == "untrusted home":
            cwd = jobq.directory / "cloned"
            (cwd / ".jobq").mkdir(parents=True, mode=0o700)
            env = {"JOBQ_HOME": ""}
        else:
            config.write_text('plugins.block = ["json"]\nmax-attempts = 0\n')
        answer = jobq("plugins", "--json", env=env, cwd=cwd)
        statuses = {plugin["name"]: plugin["status"] for plugin in answer.json}
        assert statuses["subprocess"] == "ok"
        assert statuses["json"] == ("blocked" if trouble == "blocked by setting" else "ok")
        assert answer.stderr.startswith("jobq: ")
        assert "Traceback" not in answer.stderr

    def test_a_file_that_is_broken_or_missing_is_listed_and_fails_the_command(self, jobq):
        path = jobq.directory / "mine.py"
        path.write_text("raise RuntimeError('no luck')")
        answer = jobq("-p", "./mine.py", "plugins", "--json", code=6)
        (mine,) = (plugin for plugin in answer.json if plugin["name"] == "mine")
        assert (mine["status"], mine["error"]) == ("failed", "RuntimeError: no luck")
        assert "no luck" in jobq("-p", "./mine.py", "status", code=6).stderr
        assert "no installed plugin is named 'moon'" in jobq("plugins", "-p", "moon", code=6).stderr


class TestInit:
    @pytest.fixture
    def project(self, jobq):
        """A directory in which no variable names a home."""
        del jobq.environ["JOBQ_HOME"]
        project = jobq.directory / "project"
        (project / "sub").mkdir(parents=True)
        return project

    def test_it_makes_a_home_for_here_and_below(self, jobq, project):
        answer = jobq("init", cwd=project)
        local = project / ".jobq"
        assert str(local) in answer.stderr
        assert stat.S_IMODE(local.stat().st_mode) == 0o700
        assert (local / ".gitignore").read_text() == "*\n"
        job = jobq("add", "--", "true", cwd=project / "sub")
        assert f"home: {local}" in job.stderr
        assert jobq("show", "--json", job.id, cwd=project).json["cwd"] == str(project / "sub")
        assert jobq("doctor", cwd=project).code == 0

    def test_again_is_no_error(self, jobq, project):
        jobq("init", cwd=project)
        assert "is there already" in jobq("init", cwd=project).stderr

    def test_one_that_came_with_an_archive_runs_nothing_before_it_is_trusted(self, jobq, project):
        jobq("init", cwd=project)
        jobq("add", "--id", "planted", "--", "touch", str(jobq.directory / "ran"), cwd=project)
        copy = jobq.directory / "copy"
        shutil.copytree(project, copy)
        for words in (("status",), ("worker", "start", "--until-empty"), ("init",)):
            answer = jobq(*words, cwd=copy, code=5)
            assert "--trust" in answer.stderr
        assert not (jobq.directory / "ran").exists()
        jobq("init", "--trust", str(copy), cwd=jobq.directory)
        jobq("worker", "start", "--until-empty", cwd=copy)
        assert (jobq.directory / "ran").exists()

    def test_trust_is_for_a_private_directory_that_is_there(self, jobq, project):
        assert "no directory" in jobq("init", "--trust", "nowhere", code=1).stderr
        (project / ".jobq").mkdir()
        (project / ".jobq").chmod(0o755)
        assert "chmod 700" in jobq("init", "--trust", str(project), code=5).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_completion_is_printed(jobq, shell):
    assert "_JOBQ_COMPLETE" in jobq("completion", shell).stdout


def test_commands_and_options_are_completed(jobq):
    env = {"_JOBQ_COMPLETE": "bash_complete", "COMP_WORDS": "jobq st", "COMP_CWORD": "1"}
    assert jobq(env=env).stdout.split() == ["plain,status"]
    env |= {"COMP_WORDS": "jobq config s"}
    assert jobq(env=env | {"COMP_CWORD": "2"}).stdout.split() == ["plain,set"]


def test_the_demo_shows_a_real_run_and_leaves_nothing(jobq, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    answer = jobq("demo", env={"TMPDIR": str(temporary)})
    assert list(temporary.iterdir()) == []
    assert not jobq.home.exists()
    text = answer.stdout
    for shown in (
        "$ jobq --quiet add --id hello -- echo 'hello from a job'",
        "$ jobq worker start --until-empty",
        'doomed  attempts=2/2  error="exit code 1"',
        "completed    3\n",
        "dead         1\n",
        "All as promised. What next:",
    ):
        assert shown in text
    assert answer.stderr == ""


def test_the_demo_fails_when_something_is_not_as_promised(tmp_path):
    """With a kernel that cannot run jobs, each broken promise is named, and nothing is said to be well."""
    code = "import sys\nfrom jobq.cli import demo\nfrom jobq.cli.entry import main\ndemo._PROMISED['hello'] = {'state': 'dead'}\nmain(['demo'])\n"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environ)
    assert done.returncode == 1
    assert "not as promised: hello should be {'state': 'dead'}" in done.stderr
    assert "All as promised" not in done.stdout


def test_json_is_alone_on_stdout_whatever_is_said_beside_it(jobq, config):
    config.write_text("colour = 1\n")
    for words in (("plugins", "--json"), ("handlers", "--json"), ("config", "list", "--json"), ("doctor", "--json")):
        answer = jobq(*words, code=None)
        assert json.loads(answer.out) is not None


def test_a_working_directory_that_was_removed_is_no_fault_in_jobq(jobq):
    command = """mkdir gone && cd gone && rmdir ../gone && exec "$@" """
    for words, code in ((("status",), 0), (("plugins",), 0), (("add", "--", "true"), 1)):
        full = ["/bin/sh", "-c", command, "sh", *jobq.command(*words)]
        done = subprocess.run(
            full,
            check=False,
            capture_output=True,
            text=True,
            cwd=jobq.directory,
            env=jobq.environ,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, done.stderr
    assert "cwd: '.' was removed" in done.stderr


def test_a_store_that_was_removed_is_an_error_until_doctor_begins_an_empty_one(jobq):
    assert jobq("list").stderr.endswith("no jobs\n"), "a fresh home is no loss"
    jobq("add", "--", "true")
    shutil.rmtree(jobq.home / "queue")
    for words in (("list",), ("status",), ("add", "--", "true"), ("worker", "start", "--until-idle")):
        refused = jobq(*words, code=5).stderr
        assert "queue is gone" in refused
        assert "jobq doctor --repair" in refused
        assert not (jobq.home / "queue").exists(), "a backup is to be put in its place"
    jobq("doctor", code=5)
    assert "an empty store was begun" in jobq("doctor", "--repair").stderr
    assert jobq("list", "--json").json == []
    jobq("add", "--", "true")
    jobq("doctor")


def test_a_backup_that_was_put_beside_the_store_is_not_passed_over(jobq):
    job_id = jobq("add", "--", "true").id
    (jobq.home / "queue").rename(jobq.home / "backup")
    (jobq.home / "queue").mkdir(mode=0o700)
    (jobq.home / "backup").rename(jobq.home / "queue" / "backup")
    refused = jobq("doctor", "--repair", code=5)
    assert "holds backup, which no store has there" in refused.stderr + refused.stdout
    (jobq.home / "queue" / "backup").rename(jobq.home / "backup")
    shutil.rmtree(jobq.home / "queue")
    (jobq.home / "backup").rename(jobq.home / "queue")
    assert [job["id"] for job in jobq("list", "--json").json] == [job_id]


def test_doctor_repairs_a_store_whose_manifest_is_gone(jobq):
    job_id = jobq("add", "--", "true").id
    (jobq.home / "queue" / "queue.json").unlink()
    refused = jobq("list", code=5)
    assert "jobq doctor --repair" in refused.stderr
    assert "Traceback" not in refused.stderr
    jobq("doctor", code=5)
    jobq("doctor", "--repair")
    assert [job["id"] for job in jobq("list", "--json").json] == [job_id]
    assert "nothing was to be repaired" in jobq("doctor", "--repair").stderr


def test_config_set_refuses_a_store_executor_or_backoff_that_nobody_offers(jobq):
    for key, value in (("store", "mysql:"), ("executor", "docker"), ("backoff", "nix")):
        refused = jobq("config", "set", key, value, code=6)
        assert "there is: " in refused.stderr
    jobq("config", "set", "store", "json:elsewhere")
    jobq("add", "--", "true")
    assert (jobq.home / "elsewhere" / "queue.json").exists()


def test_doctor_tells_of_handlers_that_cannot_be_imported(jobq):
    (jobq.directory / "sound.py").write_text("print('noise')\ndef run(job, context): pass\n")
    (jobq.directory / "broken.py").write_text("raise SystemExit(3)\n")
    jobq("config", "set", "handlers-path", str(jobq.directory))
    jobq("config", "set", "handlers.sound", "sound:run")
    assert "1 by name" in jobq("doctor").stdout
    jobq("config", "set", "handlers.gone", "no_such_module:run")
    jobq("config", "set", "handlers.broken", "broken:run")
    jobq("config", "set", "handlers.other", "sound:missing")
    (jobq.directory / "fatal.py").write_text("import os\nos._exit(1)\n")
    jobq("config", "set", "handlers.fatal", "fatal:run")
    told = jobq("doctor", code=5).stdout
    assert "gone: no_such_module:run cannot be imported: ModuleNotFoundError" in told
    assert "broken: broken:run cannot be imported: SystemExit" in told
    assert "other: sound:missing cannot be imported: AttributeError" in told
    assert "fatal: importing it ends the process" in told
    assert "sound: " not in told
