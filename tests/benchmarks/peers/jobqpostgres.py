"""jobq with its jobs in PostgreSQL: workers hear of jobs by LISTEN and renew a lease."""

from __future__ import annotations

from peers.jobq import Jobq
from peers.servers import OnPostgresql


class JobqPostgres(Jobq, OnPostgresql):
    name = "jobq-postgres"
    packages = ("jobq", "jobq-postgres", "psycopg")
    delivery = "at least once: the dead one's lock is free at once on its host, its lease elsewhere after 30 s"
    settings = "jobq --store postgresql://… worker start -n 2, quiet, else as it comes"

    def durable(self) -> str:
        return OnPostgresql.durable(self)

    def config(self) -> str:
        return f'store = "{self.url}"\n{super().config()}'
