"""pgqueuer, in PostgreSQL: workers hear of jobs by LISTEN and renew a heartbeat on what they hold."""

from __future__ import annotations

from peers.servers import OnPostgresql


class PgQueuer(OnPostgresql):
    name = "pgqueuer"
    packages = ("pgqueuer", "asyncpg", "psycopg")
    delivery = "at least once: after 30 s without a heartbeat"
    settings = "2 processes of pgq run, batches of 10, quiet, else as they come"
    APP = """
import asyncio
from contextlib import asynccontextmanager
from functools import cache
import jobs

URL = "{url}"

@asynccontextmanager
async def main():
    import asyncpg
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgDriver

    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @worker.entrypoint("nothing")
    async def nothing(job):
        jobs.nothing()

    @worker.entrypoint("stamp")
    async def stamp(job):
        jobs.stamp(float(job.payload))

    @worker.entrypoint("hold")
    async def hold(job):
        await asyncio.to_thread(jobs.hold, float(job.payload))

    yield worker

@cache
def queries():
    import psycopg
    from pgqueuer.db import SyncPsycopgDriver
    from pgqueuer.queries import SyncQueries

    return SyncQueries(SyncPsycopgDriver(psycopg.connect(URL, autocommit=True)))

def enqueue(name, **arguments):
    queries().enqueue(name, str(arguments["sent"]).encode() if arguments else None)

def waiting():
    return sum(queue.count for queue in queries().queue_size())
"""

    def prepare(self) -> None:
        self.run("pgq", "--pg-dsn", self.url, "install")

    def worker(self, count: int) -> list[list[str]]:
        return [["pgq", "run", "--log-level", "WARNING", "app:main"]] * count
