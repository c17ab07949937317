"""jobq: no server, one directory of files; a worker is one program that keeps one process a slot for handlers."""

from __future__ import annotations

from peers.peer import Peer

CONFIG = """
handlers-path = ["."]
durability = "{durability}"
[handlers]
nothing = "app:nothing"
stamp = "app:stamp"
hold = "app:hold"
"""


class Jobq(Peer):
    name = "jobq"
    packages = ("jobq",)
    delivery = "at least once: another worker finds the dead one's lock free"
    settings = "jobq worker start -n 2, quiet, else as it comes"
    APP = """
from functools import cache
from jobq import Queue
import jobs

@cache
def queue():
    return Queue.open()

def enqueue(name, **arguments):
    queue().enqueue(handler=name, payload=arguments)

def nothing(job, context):
    jobs.nothing()

def stamp(job, context):
    jobs.stamp(**job.payload)

def hold(job, context):
    jobs.hold(**job.payload)

def waiting():
    return sum(job.state not in ("completed", "cancelled") for job in queue().find())
"""

    def durable(self) -> str:
        return "synced before enqueue returns" if self.durability == "full" else "a power cut may take the last second"

    def prepare(self) -> None:
        home = self.directory / "home"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(self.config())

    def config(self) -> str:
        """The content of config.toml."""
        return CONFIG.replace("{durability}", self.durability)

    def worker(self, count: int) -> list[list[str]]:
        return [["jobq", "--quiet", "worker", "start", "-n", str(count)]]
