"""litequeue, in a SQLite file: a queue without a worker program; the loop is the plainest one that its methods allow."""

from __future__ import annotations

from peers.peer import Peer


class Litequeue(Peer):
    name = "litequeue"
    packages = ("litequeue",)
    delivery = "the job stays locked until the user's program calls retry"
    settings = "2 processes of a loop: pop, run, done; 10 ms of sleep when there is nothing"
    APP = """
import json
import time
import litequeue
import jobs

queue = litequeue.LiteQueue("queue.db", timeout=60)
if "{durability}" == "full":
    queue.conn.execute("PRAGMA synchronous = FULL")

def enqueue(name, **arguments):
    queue.put(json.dumps([name, arguments]))

def work():
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(0.01)
            continue
        name, arguments = json.loads(message.data)
        getattr(jobs, name)(**arguments)
        queue.done(message.message_id)

def waiting():
    return queue.qsize()
"""

    def durable(self) -> str:
        if self.durability == "full":
            return "SQLite, WAL, synchronous=FULL, set after it opened the file"
        return "SQLite, WAL, synchronous=NORMAL, as it comes: a power cut may take the last ones"

    def worker(self, count: int) -> list[list[str]]:
        return [["python", "-c", "import app; app.work()"]] * count
