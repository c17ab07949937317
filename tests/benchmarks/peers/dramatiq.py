"""dramatiq, in Redis: messages are acknowledged after the job."""

from __future__ import annotations

from peers.servers import OnValkey


class Dramatiq(OnValkey):
    name = "dramatiq"
    packages = ("dramatiq", "redis")
    delivery = "at least once: workers that have not been heard of for 60 s are looked for at random moments"
    settings = "RedisBroker; dramatiq -p 2 -t 1, else as it comes"
    APP = """
import dramatiq
from dramatiq.brokers.redis import RedisBroker
import jobs

broker = RedisBroker(url="{url}")
dramatiq.set_broker(broker)
actors = {name: dramatiq.actor(getattr(jobs, name)) for name in jobs.NAMES}

def enqueue(name, **arguments):
    actors[name].send(**arguments)

def waiting():
    return broker.client.hlen("dramatiq:default.msgs")
"""

    def worker(self, count: int) -> list[list[str]]:
        return [["dramatiq", "app", "-p", str(count), "-t", "1"]]
