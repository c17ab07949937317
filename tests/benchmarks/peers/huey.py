"""huey, in a SQLite file and in Redis: its consumer takes a job out of the queue before it runs it."""

from __future__ import annotations

from peers.peer import Peer
from peers.servers import OnValkey

TASKS = """
import jobs

tasks = {name: huey.task()(getattr(jobs, name)) for name in jobs.NAMES}

def enqueue(name, **arguments):
    tasks[name](**arguments)

def waiting():
    return huey.pending_count()
"""


class HueySqlite(Peer):
    name = "huey-sqlite"
    packages = ("huey",)
    delivery = "at most once: a job leaves the queue before it runs"
    settings = "SqliteHuey(fsync=True), WAL; huey_consumer -w 2 (threads), quiet, else as it comes"
    APP = "from huey import SqliteHuey\nhuey = SqliteHuey(filename='huey.db', fsync=True)\n" + TASKS

    def durable(self) -> str:
        return "SQLite, WAL, synchronous=FULL"

    def worker(self, count: int) -> list[list[str]]:
        return [["huey_consumer", "app.huey", "-q", "-w", str(count)]]


class HueyRedis(OnValkey):
    name = "huey-redis"
    packages = ("huey", "redis")
    delivery = HueySqlite.delivery
    worker = HueySqlite.worker
    settings = "RedisHuey; huey_consumer -w 2 (threads), quiet, else as it comes"
    APP = "from huey import RedisHuey\nhuey = RedisHuey(url='{url}')\n" + TASKS
