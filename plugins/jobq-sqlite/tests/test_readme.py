"""The README against the code: its first commands do what it shows, and the files that it names are those."""

import re
from pathlib import Path

from jobq_sqlite import place, writequeue
from jobq_sqlite.place import Place

pytest_plugins = ["jobq.testing.fixtures"]

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_first_commands_do_what_is_shown(jobq_home, jobq_cli):
    (block,) = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for command, shown in re.findall(r"^\$ jobq (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
        told = jobq_cli(*command.split(), process=True).stdout
        assert re.sub(r"\d{4}-.*", "WHEN", told) == re.sub(r"\d{4}-.*", "WHEN", shown)
    assert (jobq_home / place.DEFAULT).exists()


def test_the_files_and_the_limit_are_those_it_names(tmp_path):
    assert f"`{place.DEFAULT}`" in README
    assert f"`{Path(Place(tmp_path, '', allow_network=True).path).name}-wal`" in README
    assert f"wait for {writequeue.LIMIT:g} s" in README
