"""jobq built as it is released, and environments in which nothing but what a test installs is there."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path

import pytest

from .mischief import FINE, MISCHIEF, MODULES, distribution_of

ROOT = Path(__file__).parents[2]
TIMEOUT = 120


def run(*command, **options):
    """Run a command; its stdout. Fails with all that it said where it does not exit with 0."""
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, timeout=TIMEOUT, **options
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Built:
    """The wheel and the sdist."""

    wheel: Path
    sdist: Path

    @property
    def names(self):
        with zipfile.ZipFile(self.wheel) as archive:
            return archive.namelist()

    def metadata(self, name="METADATA"):
        """A file of the wheel's metadata, as text."""
        with zipfile.ZipFile(self.wheel) as archive:
            (path,) = (path for path in self.names if path.endswith(f".dist-info/{name}"))
            return archive.read(path).decode()

    @property
    def requires(self):
        """The names of the distributions that the wheel needs, without those of its extras."""
        lines = message_from_string(self.metadata()).get_all("Requires-Dist", [])
        return [re.match(r"[\w.-]+", line).group() for line in lines if "extra ==" not in line]


class Environment:
    """A virtual environment with jobq's wheel, what it says it needs, and nothing else; and a home of its own."""

    def __init__(self, path, built):
        self.path = path
        venv.create(path / "venv", with_pip=False, symlinks=True)
        self.python = path / "venv" / "bin" / "python"
        (self.site,) = (path / "venv").glob("lib/python*/site-packages")
        for name in built.requires:
            self.copy(name)
        self.install(built.wheel)
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        self.environ = {
            **kept,
            "HOME": str(path / "user"),
            "JOBQ_HOME": str(path / "home"),
            "LANG": "C.UTF-8",
            "PYTHONSAFEPATH": "1",
        }

    def copy(self, name):
        """Put a distribution of the running environment into this one: the same as installing it, without an index."""
        for file in distribution(name).files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = self.site.joinpath(*file.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)

    def install(self, *wheels):
        run(sys.executable, "-m", "pip", "--python", self.python, "install", "-q", "--no-deps", "--no-index", *wheels)

    def uninstall(self, name):
        run(sys.executable, "-m", "pip", "--python", self.python, "uninstall", "-q", "-y", name)

    def run(self, *args, code=0, home="home", env=None):
        """Run `jobq`; what it answered."""
        environ = {**self.environ, "JOBQ_HOME": str(self.path / home), **(env or {})}
        command = [self.python.parent / "jobq", *args]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            cwd=self.path,
            env=environ,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, f"jobq {args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *args, **options):
        return json.loads(self.run(*args, **options).stdout)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """jobq's sdist, and the wheel built from it."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT)
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    return Built(wheel, sdist)


@pytest.fixture(scope="session")
def environment(built, tmp_path_factory):
    """An environment with jobq alone. Tests that install more make their own."""
    return Environment(tmp_path_factory.mktemp("environment"), built)


@pytest.fixture(scope="session")
def make_environment(built, tmp_path_factory):
    """Makes an environment with jobq to which a test adds."""
    return lambda name: Environment(tmp_path_factory.mktemp(name), built)


@pytest.fixture(scope="session")
def make_wheel(tmp_path_factory):
    """Makes the wheel of a distribution from its files, as an author of a plugin does."""

    def make(files):
        directory = tmp_path_factory.mktemp("source")
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text, encoding="utf-8")
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", directory / "dist", directory)
        (wheel,) = (directory / "dist").glob("*.whl")
        return wheel

    return make


@pytest.fixture(scope="session")
def mischief(make_environment, make_wheel):
    """An environment with plugins that are broken in every way, and a good one of another distribution."""
    points = {name: f"mischief.{name.replace('-', '_')}" for name in MISCHIEF} | {"nowhere": "mischief:nowhere.at_all"}
    environment = make_environment("mischief")
    environment.install(
        make_wheel(distribution_of("mischief", "0.3", MISCHIEF, points, 'gone = "mischief.gone:run"')),
        make_wheel(
            distribution_of(
                "jobq-fine", "2.1", {"fine": FINE, "twin": MODULES["twin"]}, None, 'greet = "jobq_fine.fine:greet"'
            )
        ),
    )
    return environment


@pytest.fixture
def home(request):
    """The name of a home of the test's own: nothing is remembered in it."""
    return request.node.name.replace("/", "-")
