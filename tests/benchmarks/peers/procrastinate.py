"""procrastinate, in PostgreSQL: workers hear of jobs by LISTEN."""

from __future__ import annotations

from peers.servers import OnPostgresql


class Procrastinate(OnPostgresql):
    name = "procrastinate"
    packages = ("procrastinate", "psycopg")
    delivery = "the job stays `doing` until a task that the user adds retries it"
    settings = "procrastinate worker -c 2 (one process), as it comes"
    APP = """
from functools import cache
import procrastinate
import jobs

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo="{url}"))
tasks = {name: app.task(name=name)(getattr(jobs, name)) for name in jobs.NAMES}

@cache
def opened():
    return app.open()

def enqueue(name, **arguments):
    opened()
    tasks[name].defer(**arguments)

def waiting():
    opened()
    return sum(len(app.job_manager.list_jobs(status=status)) for status in ("todo", "doing"))
"""

    def prepare(self) -> None:
        self.run("procrastinate", "-a", "app.app", "schema", "--apply")

    def worker(self, count: int) -> list[list[str]]:
        return [["procrastinate", "-a", "app.app", "worker", "-c", str(count)]]
