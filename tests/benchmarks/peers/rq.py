"""rq, in Redis: a process is forked for each job."""

from __future__ import annotations

from peers.servers import OnValkey


class Rq(OnValkey):
    name = "rq"
    packages = ("rq", "redis")
    delivery = "the job stays among the started ones until a worker's maintenance counts it as failed"
    settings = "rq worker-pool -n 2, quiet, else as it comes"
    APP = """
from redis import Redis
from rq import Queue
import jobs

queue = Queue(connection=Redis.from_url("{url}"))

def enqueue(name, **arguments):
    queue.enqueue(getattr(jobs, name), **arguments)

def waiting():
    return len(queue) + len(queue.started_job_registry) + len(queue.failed_job_registry)
"""

    def worker(self, count: int) -> list[list[str]]:
        return [["rq", "worker-pool", "-n", str(count), "-q", "-u", self.url]]
