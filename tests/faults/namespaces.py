"""Mounts that only a test's own processes see, and the command line in there."""

import ast
import gc
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.integration.conftest import Cli, eventually

from .homes import State
from .injecting import Fault
from .stores import Kind

PROGRAM = Path(__file__).parent / "programs" / "state.py"


class Mounts:
    """A mount namespace, kept by a process that sleeps; everything mounted in it goes with it."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline()
        self.prefix = ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--"]
        """The words before a command that is to be run in there; it keeps its pid."""

    def run(self, script: str, *words: object, check: bool = True) -> bool:
        """Run a script of the shell in there, with words as $1, $2 and so on; whether it ended well."""
        done = subprocess.run(
            [*self.prefix, "sh", "-ec", script, "sh", *map(str, words)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.returncode == 0

    def seen(self, path: Path) -> Path:
        """A path in there, as it can be used out here."""
        return Path(f"/proc/{self._keeper.pid}/root{path}")

    def state_of(self, home: Path) -> State:
        """What the store of a home in there holds, as `homes.state_of` has it, found out in there.

        A way through /proc is none for every store: SQLite follows the link in it, to a directory out here.
        """
        done = subprocess.run(
            [*self.prefix, sys.executable, PROGRAM, home], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        state: State = ast.literal_eval(done.stdout)
        return state

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.communicate()


class CliOnDisk(Cli):
    """`jobq` with its home on a disk of its own that is mounted in a namespace, at DIRECTORY/disk.

    Args:
        directory: where everything else is; its outside is the same in there.
        mounts: the namespace.
        store: of the home.
    """

    def __init__(self, directory: Path, mounts: Mounts, store: Kind) -> None:
        super().__init__(directory)
        self.mounts, self.disk, self._store = mounts, directory / "disk", store
        self.disk.mkdir()
        self.home = self.disk / "home"
        self.environ: dict[str, str] = {**self.environ, "JOBQ_HOME": str(self.home), "PYTHONSAFEPATH": "1"}

    def command(self, *args: str) -> list[str]:
        return [*self.mounts.prefix, *super().command(*args)]

    def start_program(
        self, argv: Sequence[str], fault: Fault | None = None, **options: Any
    ) -> "subprocess.Popen[bytes]":
        """Start a program in there, in the environment of `jobq`; it is killed at the end of the test."""
        variables = [f"{name}={value}" for name, value in (fault.environ(self.home) if fault else {}).items()]
        process = subprocess.Popen(  # the program alone is to have the fault, not what takes it there
            [*self.mounts.prefix, "env", *variables, *argv], stdin=subprocess.DEVNULL, env=self.environ, **options
        )
        self.processes.append(process)
        return process

    def mount(self, kind: str, options: str, source: object = "none") -> None:
        """Mount the disk; a home on it that is not there yet will have the store."""
        self.mounts.run(f'mount -t {kind} -o {options} "$1" "$2" && chmod 700 "$2"', source, self.disk)
        if not self.seen_home.exists():
            self._store.choose(self.seen_home)

    def unmount(self) -> None:
        """Take the disk away, once nothing uses it: what a killed worker has started may be about to end."""
        gc.collect()  # what this process has mapped of it keeps it busy
        eventually(lambda: self.mounts.run('umount "$1"', self.disk, check=False))

    @property
    def seen_home(self) -> Path:
        """The home, as the test sees it."""
        return self.mounts.seen(self.home)

    def fill(self, name: str = "filler") -> Path:
        """Use up all the space of the disk; what uses it."""
        path = self.mounts.seen(self.disk) / name
        with path.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue
        return path


def content(files: Iterable[Path]) -> Mapping[str, bytes]:
    """What is in files, by their names."""
    return {path.name: path.read_bytes() for path in files}
