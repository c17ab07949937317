"""Two versions of jobq, and whether what the newer one puts into a job is still there."""

import os
import shutil
from pathlib import Path

import jobq
import jobq_exponential
import jobq_json
import jobq_log
import jobq_subprocess

PACKAGES = (jobq, jobq_json, jobq_subprocess, jobq_exponential, jobq_log)

NEWER = "99.0"

VERSION = ("jobq/__init__.py", "\n__all__ = ", f'\n__version__ = "{NEWER}"')

FIELDS = (
    VERSION,
    ("jobq/job.py", "    finished_at: datetime | None = None\n", "    colour: Any = None\n    visits: int = 0\n"),
    ("jobq/job.py", "    output_error: str | None = None\n", "    weight: int = 0\n"),
    ("jobq/job.py", "        if self.output_error is not None:", '        record["weight"] = self.weight\n'),
    (
        "jobq/job.py",
        '            output_error=record.get("output_error")',
        '            weight=record.get("weight", 0),\n',
    ),
    ("jobq/lifecycle.py", "        output_error=outcome.output_error", "        weight=claim.run,\n"),
    (
        "jobq/lifecycle.py",
        '    fields |= {"worker": None, "finished_at": finished}',
        '    fields["visits"] = job.visits + 1\n',
    ),
    (
        "jobq/spec.py",
        "return NewJob(Job.of(values), generated)",
        'values["colour"] = {"é": [len(values), None]}\n        ',
    ),
)
"""More fields, by the file, the text before which something is put in, and that: a job has a colour from the beginning and
counts the runs that ended, and each of those has a weight."""


class Newer:
    """Another version: a copy of all packages in which something was put in, on the path of its own processes alone."""

    def __init__(self, directory, changes):
        directory.mkdir()
        for package in PACKAGES:
            source = Path(package.__file__).parent
            shutil.copytree(source, directory / source.name)
        for name, place, more in changes:
            path = directory / name
            text = path.read_text("utf-8")
            assert text.count(place) == 1, (name, place)
            path.write_text(text.replace(place, more + place), "utf-8")
        self.environ = {"PYTHONPATH": os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")]).rstrip(":")}
        self.prefix = ["env", *(f"{name}={value}" for name, value in self.environ.items())]
        """The words before a command that is to be of this version."""


class Older:
    """The version that is tested."""

    environ, prefix = {}, []


def new_fields(jobs, *, coloured, newest):
    """How many fields of the newer version there are; each must be as it was written.

    Args:
        jobs: as `jobq list --json` has them.
        coloured: the ids of the jobs that the newer version has enqueued.
        newest: the ids of its workers.
    """
    fields = 0
    for job in jobs:
        colour = job.get("colour")
        assert (colour is not None) == (job["id"] in coloured), job
        assert colour is None or (list(colour), colour["é"][1]) == (["é"], None), job
        ended = [run["run"] for run in job["history"] if run["worker"] in newest and run["outcome"] != "lost"]
        assert job.get("visits", 0) == len(ended), job
        assert [run["run"] for run in job["history"] if run.get("weight", 0) == run["run"]] == ended, job
        fields += (colour is not None) + bool(ended) + len(ended)
    return fields
