"""The rights of a role that enqueues and works, and may change nothing of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobq_postgres.address import Address

_SCRIPT = """\
-- The role {role} may enqueue, work and see in the schema @schema@. It may make, change and drop nothing there.
DO $do$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal}) THEN
        CREATE ROLE {role} LOGIN;
    END IF;
END $do$;
GRANT USAGE ON SCHEMA @schema@ TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @schema@ TO {role};
REVOKE INSERT, UPDATE, DELETE ON @schema@.versions FROM {role};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA @schema@ TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA @schema@ TO {role};
"""


def script(address: Address, role: str) -> str:
    """SQL for psql that makes the role, unless it is there, and grants it what it needs."""
    name, literal = '"' + role.replace('"', '""') + '"', "'" + role.replace("'", "''") + "'"
    return address.sql(_SCRIPT.replace("{role}", name).replace("{literal}", literal))
