"""The README against the code: every setting and its default, the message it shows, and the receiver it gives."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from jobq.events import Event, EventKind
from jobq.settings import shown
from jobq.testing import START, make_job
from jobq_webhook.announcing import INCLUDED, KINDS
from jobq_webhook.messages import of_event
from jobq_webhook.options import OPTIONS

pytest_plugins = ["jobq.testing.fixtures"]

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def block(language, start):
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL) if text.startswith(start)]
    return found


def test_every_setting_is_there_with_its_default():
    rows = re.findall(r"^\| `(webhook\.[a-z-]+)` \| `?(.*?)`? \|", README, re.MULTILINE)
    assert rows == [(option.name, shown(option.default)) for option in OPTIONS]


def test_every_kind_of_event_and_every_field_is_named():
    table = README.partition("## Settings")[2].partition("## What is sent")[0]
    named = set(re.findall(r"\w+", table))
    assert set(KINDS) | set(INCLUDED) <= named


def test_a_message_looks_as_it_is_shown():
    example = json.loads(block("json", "{"))
    made = json.loads(of_event(Event(EventKind.DEAD, make_job("nightly"), 1, START), ("error",)).body())
    assert list(example) == list(made)
    assert list(example["data"]) == list(made["data"])


def test_the_receiver_of_the_five_minutes_receives(jobq_home, jobq_cli, tmp_path, secret):
    code = block("python", "# receiver.py").replace("8000", "0").replace(").serve_forever()", ")")
    code = code.replace("http.server.HTTPServer((", "server = http.server.HTTPServer((")
    code += "\nprint(server.server_address[1], flush=True)\nserver.serve_forever()\n"
    (tmp_path / "receiver.py").write_text(code, encoding="utf-8")
    receiver = subprocess.Popen(
        [sys.executable, tmp_path / "receiver.py"],
        env=os.environ | {"WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with receiver:
        try:
            port = receiver.stdout.readline().strip()
            config = block("toml", "# config.toml").replace("whsec_…", secret).replace("8000", port)
            (jobq_home / "config.toml").write_text(config, encoding="utf-8")
            assert jobq_cli("webhook", "test").stdout == "localhost answered 204 No Content\n"
            assert receiver.stdout.readline().startswith("webhook.test {")
            (jobq_home / "config.toml").write_text(config.replace(secret, f"whsec_{'A' * 32}"), encoding="utf-8")
            assert jobq_cli("webhook", "test", code=5).stdout.startswith("localhost answered 400 Bad Request")
        finally:
            receiver.kill()
