"""`enqueue` and `add`: what is said to people, and what stands in the record."""

import json

import pytest


@pytest.mark.parametrize("words", [["echo", "hi"], ["ls", "-l"], ["make", "all", "install"]])
def test_a_command_without_the_dashes_is_refused_with_the_way_to_say_it(jobq, words):
    refused = jobq("add", *words, code=1)
    assert "jobq add -- CMD" in refused.stderr
    assert "Usage: jobq add" in refused.stderr
    assert jobq("list", "--json").json == []


def test_what_stands_behind_the_dashes_is_an_argv_whatever_it_looks_like(jobq):
    job_id = jobq("add", "-t", "mine", "--", "echo", "--id", "x", "--", "-h", "a b", "$HOME", "*").id
    jobq.run_all()
    assert jobq("logs", job_id).out == b"--id x -- -h a b $HOME *\n"
    assert jobq.job(job_id)["command"][0] == "echo"


def test_if_absent_says_that_the_job_is_there_and_refuses_other_work(jobq):
    first = ["add", "--id", "nightly", "--if-absent", "--", "true"]
    assert "Job nightly enqueued (pending)" in jobq(*first).stderr
    before = jobq.job("nightly")
    again = jobq(*first)
    assert again.stdout == "nightly\n"
    assert "Job nightly exists already (pending)" in again.stderr
    assert jobq.job("nightly") == before
    assert "with other work" in jobq("add", "--id", "nightly", "--if-absent", "--", "false", code=4).stderr


def test_add_takes_the_directory_and_the_named_variables_along(jobq, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    script = 'echo "$PWD $ONE $TWO $TZ $SECRET"'
    env = {"TWO": "2", "TZ": "Asia/Tokyo", "SECRET": "not captured"}
    job_id = jobq("add", "-e", "ONE=1", "-e", "TWO", "--shell", script, env=env, cwd=place).id
    jobq.run_all()
    assert jobq("logs", job_id).stdout == f"{place} 1 2 Asia/Tokyo \n"
    clean = jobq("add", "--clean-env", "-C", str(tmp_path), "--", "true", env=env).id
    assert (jobq.job(clean)["env"], jobq.job(clean)["cwd"]) == ({}, str(tmp_path))


def test_variables_from_a_file_stay_out_of_the_arguments(jobq, tmp_path):
    (tmp_path / "env").write_text("# comment\nexport TOKEN=a=b c\n\nEMPTY=\n")
    job_id = jobq("add", "--env-file", str(tmp_path / "env"), "--shell", 'echo "$TOKEN|$EMPTY"').id
    jobq.run_all()
    assert jobq("logs", job_id).out == b"a=b c|\n"
    assert "a=b" not in jobq("show", job_id).stdout
    (tmp_path / "env").write_text("GOOD=1\nno equals sign\n")
    refused = jobq("add", "--env-file", str(tmp_path / "env"), "--", "true", code=1)
    assert "line 2" in refused.stderr
    assert "equals" not in refused.stderr, "it may be a part of a secret"


def test_the_options_of_add_are_the_fields_of_the_job(jobq):
    options = ["--id", "x", "-q", "lane", "--priority", "-5", "--max-attempts", "7", "--timeout", "1h30m"]
    options += ["-t", "a", "-t", "b", "--on-lost", "dead", "--retry-on", "1,3-5,timeout", "--no-retry-on", "4"]
    jobq("add", *options, "--at", "2099-01-01T00:00:00Z", "--", "true")
    job = jobq.job("x")
    assert {name: job[name] for name in ("queue", "priority", "max_attempts", "timeout", "tags", "on_lost")} == {
        "queue": "lane",
        "priority": -5,
        "max_attempts": 7,
        "timeout": 5400,
        "tags": ["a", "b"],
        "on_lost": "dead",
    }
    assert (job["retry_on"], job["no_retry_on"]) == ([1, "3-5", "timeout"], [4])
    assert job["run_at"] == "2099-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--timeout", "0"], "timeout: 0 must be more than 0"),
        (["--delay", "soon"], "--delay: 'soon' must be a duration"),
        (["--at", "25:00"], "--at: '25:00' is no time of day"),
        (["--delay", "1", "--at", "03:00"], "--at and --delay exclude one another"),
        (["--at", "noon"], "'2026-07-11 03:00'"),
        (["--retry-on", "9-3"], "retry_on: '9-3' must be an exit code"),
        (["--retry-on", "0"], "retry_on: '0' must be an exit code"),
        (["--retry-on", "Timeout"], "commands raise no exceptions"),
        (["--retry-on", ""], "names nothing"),
        (["--home", ""], "must not be empty"),
        (["--priority", "1001"], "from -1000 to 1000"),
        (["-e", "NOT_SET_HERE"], "is not set in this shell"),
        (["--on-lost", "maybe"], "is not one of"),
    ],
)
def test_a_wrong_option_is_named_with_its_rule(jobq, options, told):
    assert told in jobq("add", *options, "--", "true", code=1).stderr
    assert jobq("list", "--json").json == []


def test_an_add_may_wait_for_its_job_and_follow_it(jobq, worker):
    followed = jobq("add", "-f", "--shell", "echo one; sleep 0.3; echo two")
    assert followed.stdout.endswith("one\ntwo\n")
    assert jobq("add", "-w", "--max-attempts", "1", "--", "false", code=7).id


def test_an_unserved_queue_is_told_with_the_way_to_serve_it(jobq, start_worker):
    assert "no worker serves the queue default" in jobq("add", "--", "true").stderr
    start_worker("-q", "default")
    assert "no worker serves" not in jobq("add", "--", "true").stderr
    assert "no worker serves the queue other" in jobq("add", "-q", "other", "--", "true").stderr


def test_enqueue_reads_files_and_standard_input_and_answers_with_the_ids_in_order(jobq, tmp_path):
    lines = "\n".join(json.dumps({"id": f"n{n}", "command": "true"}) for n in range(3)) + "\n\n"
    (tmp_path / "jobs.jsonl").write_text(lines)
    assert jobq("enqueue", "--file", str(tmp_path / "jobs.jsonl")).stdout.split() == ["n0", "n1", "n2"]
    assert [job["id"] for job in jobq("enqueue", "-", "--if-absent", "--json", input=lines).json] == ["n0", "n1", "n2"]
    assert "No such file" in jobq("enqueue", "--file", str(tmp_path / "none"), code=1).stderr
    jobq("enqueue", code=1)


def test_more_than_a_batch_with_a_taken_id_stores_nothing(jobq):
    jobq("enqueue", '{"id": "taken", "command": "true"}')
    specs = [{"command": "true"} for _ in range(1500)] + [{"id": "taken", "command": "true"}]
    refused = jobq("enqueue", "-", input="".join(json.dumps(spec) + "\n" for spec in specs), code=4)
    assert "taken" in refused.stderr
    assert jobq("status", "--json").json["counts"]["pending"] == 1


def test_a_local_date_and_time_is_understood(jobq):
    job_id = jobq("add", "--at", "2099-01-02 03:04", "--", "true", env={"TZ": "Asia/Tokyo"}).id
    assert jobq.job(job_id)["run_at"] == "2099-01-01T18:04:00.000Z"


def test_an_id_that_comes_twice_in_one_input_is_told_by_its_lines(jobq):
    lines = "".join(json.dumps({"id": name, "command": "true"}) + "\n" for name in ("a", "b", "a"))
    assert "line 3: id: 'a' is that of line 1 too" in jobq("enqueue", "-", input=lines, code=1).stderr
    assert jobq("list", "--json").json == []


def test_pretty_printed_json_is_refused_with_the_form_that_is_wanted(jobq):
    refused = jobq("enqueue", "-", input='{\n  "command": "true"\n}\n', code=1)
    assert "each line is one object" in refused.stderr


def test_an_add_that_waits_answers_with_the_record_at_the_end(jobq, worker):
    assert jobq("add", "-w", "--json", "--", "true").json["state"] == "completed"


def test_a_handler_that_no_live_worker_has_is_told(jobq, start_worker):
    start_worker()
    jobq("config", "set", "handlers.late", "late:late")
    assert "no worker of the queue default has the handler late" in jobq("add", "late").stderr


def test_what_is_retried_comes_from_the_settings_of_the_moment(jobq):
    jobq("config", "set", "retry-on", "3-5,timeout,ValueError")
    jobq("config", "set", "no-retry-on", "4")
    assert jobq("config", "get", "retry_on").stdout == "3-5,timeout,ValueError\n"
    assert jobq("config", "get", "--json", "no-retry-on").json == [4]
    command, other = jobq.add("--", "true"), jobq.add("--retry-on", "9", "--no-retry-on", "none", "--", "true")
    jobq("config", "unset", "retry-on")
    assert (jobq.job(command)["retry_on"], jobq.job(command)["no_retry_on"]) == (["3-5", "timeout"], [4])
    assert (jobq.job(other)["retry_on"], jobq.job(other)["no_retry_on"]) == ([9], [])
    failing = jobq.add("--", "sh", "-c", "exit 4")
    jobq.run_all()
    assert (jobq.job(failing)["state"], jobq.job(failing)["attempts"]) == ("dead", 1)


def test_a_wrong_condition_is_refused_when_it_is_set_and_when_it_is_used(jobq):
    rule = "must be an exit code from 1 to 255"
    assert f"retry-on: '0' {rule}" in jobq("config", "set", "retry-on", "1,0", code=1).stderr
    variable = {"JOBQ_NO_RETRY_ON": "9-3"}
    assert f"no-retry-on (JOBQ_NO_RETRY_ON): '9-3' {rule}" in jobq("add", "--", "true", env=variable, code=1).stderr
    assert jobq("list", "--json").json == []


def test_an_exit_code_given_as_text_counts(jobq):
    job = jobq("enqueue", json.dumps({"command": "exit 5", "no_retry_on": ["5"]})).id
    jobq.run_all()
    assert (jobq.job(job)["state"], jobq.job(job)["attempts"]) == ("dead", 1)


def test_when_it_is_to_run_is_said_once_and_what_is_past_is_called_so(jobq):
    refused = jobq("add", "--at", "05:00", "--delay", "5m", "--", "true", code=1)
    assert refused.stderr.endswith("Error: --at and --delay exclude one another\n")
    past = jobq("add", "--at", "2020-01-01T03:00:00Z", "--", "true")
    assert past.stderr.endswith("runs at 2020-01-01 03:00:00 (that is past: at once)\n")
