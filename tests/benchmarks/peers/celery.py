"""celery, in Redis, with late acknowledgement, which is its way to at-least-once delivery."""

from __future__ import annotations

from peers.servers import OnValkey


class Celery(OnValkey):
    name = "celery"
    packages = ("celery", "kombu", "redis")
    delivery = "at least once: after the visibility timeout, 1 h"
    settings = (
        "acks_late, reject_on_worker_lost, ignore_result; celery worker -c 2 (processes), quiet, else as it comes"
    )
    APP = """
from celery import Celery
import jobs

app = Celery("bench", broker="{url}")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
)
tasks = {name: app.task(name=name)(getattr(jobs, name)) for name in jobs.NAMES}

def enqueue(name, **arguments):
    tasks[name].delay(**arguments)

def waiting():
    client = app.connection_for_read().default_channel.client
    return client.llen("celery") + client.hlen("unacked")
"""

    def worker(self, count: int) -> list[list[str]]:
        return [["celery", "-A", "app", "worker", "-c", str(count), "-l", "WARNING"]]
