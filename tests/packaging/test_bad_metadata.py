"""Distributions whose metadata are broken: they stop nobody else."""

import json
import shutil

import pytest

from .mischief import REASONS, do_everything, listed


class TestMetadata:
    """The files of an installed distribution, spoilt after it was installed."""

    @pytest.fixture
    def info(self, mischief):
        """The directory with the metadata of the good distribution; whole again afterwards."""
        (info,) = mischief.site.glob("jobq_fine-*.dist-info")
        kept = info.parent / "kept"
        shutil.copytree(info, kept)
        yield info
        shutil.rmtree(info)
        kept.rename(info)

    def spoil(self, path, how):
        if how == "is no UTF-8":
            path.write_bytes(path.read_bytes() + b"\n\xff\xfe")
        elif how == "is no list":
            path.write_text("[jobq]\nnonsense\n")
        elif how == "has no version":
            path.write_text("Metadata-Version: 2.1\nName: jobq-fine\n")
        else:
            path.unlink()
            if how == "is a directory":
                path.mkdir()
            elif how == "is a loop":
                path.symlink_to(path)

    @pytest.mark.parametrize("how", ["is no UTF-8", "is no list", "is a directory", "is a loop"])
    def test_where_its_entry_points_cannot_be_read_the_distribution_is_named(self, mischief, home, info, how):
        self.spoil(info / "entry_points.txt", how)
        told = "jobq: plugin jobq-fine (jobq-fine 2.1): its entry_points.txt cannot be read"
        done = mischief.run("plugins", "--json", home=home)
        assert told in done.stderr
        statuses = {(p["name"], p["distribution"]): p["status"] for p in json.loads(done.stdout)}
        assert ("fine", "jobq-fine") not in statuses
        assert statuses["jobq-fine", "jobq-fine"] == "failed"
        assert statuses["json", "jobq"] == statuses["twin", "mischief"] == "ok"
        assert told in mischief.run("-p", "jobq-fine", "status", home=home, code=6).stderr
        assert told not in mischief.run("-p", "no:jobq-fine", "status", home=home).stderr

    def test_such_a_distribution_stops_no_command_and_is_pinned_too(self, mischief, home, info):
        self.spoil(info / "entry_points.txt", "is no UTF-8")
        do_everything(mischief, home, env={"JOBQ_PLUGINS_BLOCK": ",".join(REASONS)}, doctor=5)
        assert "jobq-fine==2.1" in mischief.run("plugins", "--requirements", home=home).stdout.splitlines()

    @pytest.mark.parametrize("how", ["is no UTF-8", "has no version", "is a directory", "is a loop", "is not there"])
    def test_where_only_its_name_and_version_cannot_be_read_it_works(self, mischief, home, info, how):
        self.spoil(info / "METADATA", how)
        found = [p for (name, _), p in listed(mischief, home=home).items() if name == "fine"]
        assert [(p["distribution"].replace("_", "-"), p["version"], p["status"]) for p in found] == [
            ("jobq-fine", "2.1", "ok")
        ]
        assert mischief.run("fine", home=home).stdout == "all is well\n"
        assert "    note: its metadata " in mischief.run("plugins", "-v", home=home).stdout
